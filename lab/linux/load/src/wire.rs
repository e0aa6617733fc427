// SPDX-License-Identifier: GPL-2.0-only
//! A virtual machine's network: a tap at the host's end, a card that answers when its guest asks it to, and the
//! client on the host that says how long the answers took.

use std::collections::VecDeque;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use crate::vm::{Memory, now_ns, sleep_until};

const TUN: &str = "/dev/net/tun";
const ECHO_PORT: u16 = 7;
/// With its head of Ethernet; nothing longer is sent here.
const FRAME_BYTES: usize = 2048;
/// Of Ethernet 14, of IP 20, of UDP 8.
const HEAD_BYTES: usize = 42;
const CARD: [u8; 6] = [0x02, 0, 0, 0, 0, 2];

fn device_of(domain: &str) -> String {
    format!("tap-{domain}")
}

/// The card of a virtual machine. It is in the machine's process, as QEMU's is, so that the host counts its packets.
#[derive(Clone)]
pub struct Card {
    tap: Arc<File>,
    unanswered: Arc<Mutex<VecDeque<Vec<u8>>>>,
    memory: Memory,
}

impl Card {
    /// Makes the tap, and a thread that takes packets from it.
    pub fn insert(domain: &str, memory: Memory) -> Result<Card, Box<dyn Error>> {
        let tap = File::options().read(true).write(true).open(TUN)?;
        // SAFETY: a C structure of numbers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, byte) in
            request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(device_of(domain).bytes())
        {
            *to = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is one that TUNSETIFF takes, and its name ends with a zero.
        if unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw const request) } != 0 {
            return Err(io::Error::last_os_error().into());
        }
        let card = Card { tap: Arc::new(tap), unanswered: Arc::default(), memory };
        let receiver = card.clone();
        thread::Builder::new().name("net".to_owned()).spawn(move || receiver.receive())?;
        Ok(card)
    }

    fn receive(&self) -> io::Result<()> {
        let mut frame = [0; FRAME_BYTES];
        loop {
            let length = (&*self.tap).read(&mut frame)?;
            if is_echo(&frame[..length]) {
                let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
                unanswered.push_back(frame[..length].to_vec());
                self.memory.tell_of_packets(true);
            }
        }
    }

    /// The guest has seen that there are packets.
    pub fn answer(&self) -> io::Result<()> {
        let frames = {
            let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
            self.memory.tell_of_packets(false);
            std::mem::take(&mut *unanswered)
        };
        for mut frame in frames {
            turn_back(&mut frame);
            (&*self.tap).write_all(&frame)?;
        }
        Ok(())
    }
}

/// UDP in IPv4 without options, to the port for echoes.
fn is_echo(frame: &[u8]) -> bool {
    frame.len() >= HEAD_BYTES
        && frame[12..14] == [8, 0]
        && frame[14] == 0x45
        && frame[23] == libc::IPPROTO_UDP as u8
        && frame[36..38] == ECHO_PORT.to_be_bytes()
}

/// From who it was for to who sent it. Checksums are sums, so they stay.
fn turn_back(frame: &mut [u8]) {
    for (one, other, bytes) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        for byte in 0..bytes {
            frame.swap(one + byte, other + byte);
        }
    }
}

/// How long answers took.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RoundTrips {
    pub sent: u64,
    pub answered: u64,
    pub mean_ns: u64,
    pub worst_ns: u64,
}

/// Sends to a virtual machine for ever, and notes what comes back.
pub struct Client {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    sent: u64,
    times_ns: Vec<u64>,
}

impl Client {
    /// `index`: of the domain in its plan. Its tap is there already.
    pub fn start(
        domain: &str,
        index: usize,
        interval_ns: u64,
        begin_ns: u64,
    ) -> Result<Client, Box<dyn Error>> {
        let device = device_of(domain);
        // What the host would send by itself.
        fs::write(format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1").or_else(
            |error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) },
        )?;
        let card = CARD.map(|byte| format!("{byte:02x}")).join(":");
        let here = format!("10.0.{index}.1");
        let there = format!("10.0.{index}.2");
        for arguments in
            [format!("addr add {here}/24 dev {device}"), format!("link set {device} up")]
        {
            let status = Command::new("ip").args(arguments.split(' ')).status()?;
            if !status.success() {
                return Err(format!("ip {arguments}: {status}").into());
            }
        }
        let status = Command::new("arp").args(["-i", &device, "-s", &there, &card]).status()?;
        if !status.success() {
            return Err(format!("arp -s {there}: {status}").into());
        }
        let socket = UdpSocket::bind((here.as_str(), 0))?;
        socket.connect((there.as_str(), ECHO_PORT))?;
        let seen = Arc::<Mutex<Seen>>::default();
        let (receiver, heard) = (socket.try_clone()?, seen.clone());
        thread::spawn(move || -> io::Result<()> {
            let mut stamp = [0; 8];
            loop {
                receiver.recv(&mut stamp)?;
                let time_ns = now_ns(libc::CLOCK_MONOTONIC) - u64::from_le_bytes(stamp);
                heard.lock().unwrap_or_else(PoisonError::into_inner).times_ns.push(time_ns);
            }
        });
        let told = seen.clone();
        thread::spawn(move || -> io::Result<()> {
            for number in 0.. {
                sleep_until(begin_ns + number * interval_ns)?;
                socket.send(&now_ns(libc::CLOCK_MONOTONIC).to_le_bytes())?;
                told.lock().unwrap_or_else(PoisonError::into_inner).sent += 1;
            }
            Ok(())
        });
        Ok(Client { seen })
    }

    /// What there was since the last call.
    pub fn take(&self) -> RoundTrips {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        let answered = seen.times_ns.len() as u64;
        RoundTrips {
            sent: seen.sent,
            answered,
            mean_ns: seen.times_ns.iter().sum::<u64>().checked_div(answered).unwrap_or(0),
            worst_ns: seen.times_ns.iter().copied().max().unwrap_or(0),
        }
    }
}
