// SPDX-License-Identifier: GPL-2.0-only
//! Xen's libraries, loaded while the program runs: who has none needs none.
//!
//! libxenctrl belongs to one release of Xen, and refuses any other hypervisor. Of what it fills in,
//! only what has kept its place since Xen 4.12 is looked at (`xen/include/public/domctl.h`, `sysctl.h`,
//! `tools/include/xenctrl.h`). It asks the hypervisor directly, about 2 us a question, while `xl`
//! would be a process per look; libxenstat, on which `xentop` stands, asks the same and tells neither
//! states nor pCPUs.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::{NonNull, null_mut};

use libloading::{Library, Symbol};

/// Beyond all versions of the structs that are only partly looked at: 4.20's have up to 136 bytes.
const ROOM: usize = 256;
/// libxenctrl keeps memory of this size ready; more costs it system calls each time.
const PAGE: usize = 4096;

/// Written by the hypervisor, in its own words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VcpuInfo {
    /// Which.
    pub vcpu: u32,
    /// Not taken away.
    pub online: u8,
    /// Waits for an event.
    pub blocked: u8,
    /// Runs.
    pub running: u8,
    /// Running, in ns.
    pub cpu_time: u64,
    /// Where it runs or ran last.
    pub cpu: u32,
}

/// A domain, as it is told in the list of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainInfo {
    pub id: u32,
    /// By somebody in dom0.
    pub paused: bool,
    /// Each vCPU that was not taken away waits for an event.
    pub blocked: bool,
    /// Running, in ns, of all vCPUs.
    pub cpu_time: u64,
    /// vCPUs that were not taken away.
    pub online: u32,
    /// All vCPUs: they are numbered from 0 on. While it is being built it has none.
    pub vcpus: u32,
}

/// Of Credit and of Credit2 alike.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WeightAndCap {
    pub weight: u16,
    pub cap: u16,
}

/// Of the host.
pub struct Machine {
    pub pcpus_online: u32,
    /// One more than the highest number that a pCPU can have.
    pub pcpus: u32,
    pub tsc_hz: u64,
}

type Handle = *mut c_void;
type GetVcpu = unsafe extern "C" fn(Handle, u32, u32, *mut VcpuInfo) -> c_int;
type GetDomains = unsafe extern "C" fn(Handle, u32, c_uint, *mut u64) -> c_int;
type GetIdle = unsafe extern "C" fn(Handle, c_int, *mut u64, *mut c_int) -> c_int;
type GetWeight = unsafe extern "C" fn(Handle, u32, *mut WeightAndCap) -> c_int;
type GetMachine = unsafe extern "C" fn(Handle, *mut u32) -> c_int;
type Close = unsafe extern "C" fn(Handle) -> c_int;

/// The hypervisor, asked as dom0 may.
pub struct Control {
    handle: NonNull<c_void>,
    get_vcpu: GetVcpu,
    get_domains: GetDomains,
    /// Of a domain's struct, which differs from release to release, in words of 64 bits.
    domain_words: usize,
    get_idle: GetIdle,
    /// Credit2's and Credit's.
    get_weight: [GetWeight; 2],
    get_machine: GetMachine,
    close: Close,
    /// Keeps the functions in memory, unless they are a test's own.
    _library: Option<Library>,
}

// SAFETY: the library keeps no state of a thread with a handle; one thread at a time uses it.
unsafe impl Send for Control {}

impl Control {
    /// Of this release of Xen, such as 4.20.
    pub fn open(release: &str) -> Result<Control, String> {
        // SAFETY: Xen's own library; loading it has no effects.
        let library = unsafe { Library::new(format!("libxenctrl.so.{release}")) };
        let library = library.map_err(|error| error.to_string())?;
        let words = |error: libloading::Error| error.to_string();
        // SAFETY: each function has this type in xenctrl.h of all releases since 4.12. Both kinds of
        // weights are a struct of weight and cap, 16 bits each.
        unsafe {
            type Open = unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint) -> Handle;
            let open: Symbol<Open> = library.get(b"xc_interface_open").map_err(words)?;
            let get_vcpu: GetVcpu = *library.get(b"xc_vcpu_getinfo").map_err(words)?;
            let get_domains: GetDomains = *library.get(b"xc_domain_getinfolist").map_err(words)?;
            let get_idle: GetIdle = *library.get(b"xc_getcpuinfo").map_err(words)?;
            let get_credit2: GetWeight =
                *library.get(b"xc_sched_credit2_domain_get").map_err(words)?;
            let get_credit: GetWeight =
                *library.get(b"xc_sched_credit_domain_get").map_err(words)?;
            let get_machine: GetMachine = *library.get(b"xc_physinfo").map_err(words)?;
            let close: Close = *library.get(b"xc_interface_close").map_err(words)?;
            let handle = NonNull::new(open(null_mut(), null_mut(), 0))
                .ok_or("the hypervisor cannot be asked")?;
            Ok(Control {
                domain_words: domain_words(handle, get_domains).unwrap_or(0),
                handle,
                get_vcpu,
                get_domains,
                get_idle,
                get_weight: [get_credit2, get_credit],
                get_machine,
                close,
                _library: Some(library),
            })
        }
    }

    /// All domains that are not ending; none if the hypervisor does not answer.
    pub fn domains(&self) -> Option<Vec<DomainInfo>> {
        const ENDING: u64 = 1 << 0;
        const PAUSED: u64 = 1 << 3;
        const BLOCKED: u64 = 1 << 4;
        let most = (PAGE / 8).checked_div(self.domain_words)?;
        let (mut domains, mut first) = (vec![], 0);
        loop {
            let mut infos = [0_u64; PAGE / 8];
            let (handle, infos_out) = (self.handle.as_ptr(), infos.as_mut_ptr());
            // SAFETY: there is room for so many structs.
            let found = unsafe { (self.get_domains)(handle, first, most as c_uint, infos_out) };
            let found = usize::try_from(found).ok()?;
            for info in infos.chunks_exact(self.domain_words).take(found) {
                // Its number in 16 bits, 16 that mean nothing, 32 of flags; six of memory; its CPU
                // time; how many vCPUs are online, and the highest number of a vCPU, or -1.
                let &[head, _, _, _, _, _, _, cpu_time, vcpus, ..] = info else { return None };
                let (id, flags) = ((head & 0xffff) as u32, head >> 32);
                first = id + 1;
                if flags & ENDING == 0 {
                    domains.push(DomainInfo {
                        id,
                        paused: flags & PAUSED != 0,
                        blocked: flags & BLOCKED != 0,
                        cpu_time,
                        online: vcpus as u32,
                        vcpus: ((vcpus >> 32) as u32).wrapping_add(1),
                    });
                }
            }
            if found < most {
                return Some(domains);
            }
        }
    }

    /// A vCPU; none if it does not exist.
    pub fn vcpu(&self, domain: u32, vcpu: u32) -> Option<VcpuInfo> {
        let mut info = VcpuInfo::default();
        // SAFETY: the struct is that of the library.
        let result = unsafe { (self.get_vcpu)(self.handle.as_ptr(), domain, vcpu, &raw mut info) };
        (result == 0).then_some(info)
    }

    /// By whichever scheduler the domain has; none if it is neither Credit2 nor Credit, nor answers
    /// in their place.
    pub fn weight_and_cap(&self, domain: u32) -> Option<WeightAndCap> {
        let mut answer = WeightAndCap::default();
        // SAFETY: the struct is that of the library.
        let mut ask =
            |get: GetWeight| unsafe { get(self.handle.as_ptr(), domain, &raw mut answer) };
        self.get_weight.into_iter().any(|get| ask(get) == 0).then_some(answer)
    }

    /// Idle time of so many pCPUs, in ns.
    pub fn idle_ns(&self, pcpus: u32) -> Option<Vec<u64>> {
        let mut idle_ns = vec![0; pcpus as usize];
        let mut filled = 0;
        // SAFETY: as many numbers as are said to be there.
        let result = unsafe {
            let count = c_int::try_from(pcpus).ok()?;
            (self.get_idle)(self.handle.as_ptr(), count, idle_ns.as_mut_ptr(), &raw mut filled)
        };
        idle_ns.truncate(usize::try_from(filled).ok()?);
        (result == 0).then_some(idle_ns)
    }

    /// The host.
    pub fn machine(&self) -> Option<Machine> {
        let mut info = [0_u32; ROOM / 4];
        // SAFETY: room for more than the struct.
        let result = unsafe { (self.get_machine)(self.handle.as_ptr(), info.as_mut_ptr()) };
        // Threads per core, cores per socket, pCPUs online, highest pCPU, two of nodes, kHz.
        let [_, _, pcpus_online, highest, _, _, khz, ..] = info;
        (result == 0).then_some(Machine {
            pcpus_online,
            pcpus: highest.saturating_add(1),
            tsc_hz: u64::from(khz) * 1000,
        })
    }
}

/// The size of what is written for a domain, whatever was there before; none if there is no answer.
fn domain_words(handle: NonNull<c_void>, get_domains: GetDomains) -> Option<usize> {
    let ask = |before: u64| {
        let mut info = [before; ROOM / 8];
        // SAFETY: room for more than one domain's struct, and one is asked for.
        let found = unsafe { get_domains(handle.as_ptr(), 0, 1, info.as_mut_ptr()) };
        (found == 1).then_some(info)
    };
    let (zeros, ones) = (ask(0)?, ask(u64::MAX)?);
    let written = |(&zeros, &ones): (&u64, &u64)| (zeros, ones) != (0, u64::MAX);
    Some(1 + zeros.iter().zip(&ones).rposition(written)?)
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: opened by this library, and not used after this.
        unsafe { (self.close)(self.handle.as_ptr()) };
    }
}

type ReadStore = unsafe extern "C" fn(Handle, u32, *const c_char, *mut c_uint) -> *mut c_char;
type ReadHypfs = unsafe extern "C" fn(Handle, *const c_char) -> *mut c_char;

unsafe extern "C" {
    fn free(memory: *mut c_void);
}

/// A tree of texts, read by a library of Xen's.
pub struct Texts {
    handle: NonNull<c_void>,
    read: Read,
    _library: Option<Library>,
}

enum Read {
    Store(ReadStore),
    Hypfs(ReadHypfs),
}

// SAFETY: as of `Control`.
unsafe impl Send for Texts {}

impl Texts {
    /// xenstore: names of domains.
    pub fn store() -> Option<Texts> {
        // SAFETY: Xen's own library, whose functions have had these types in all versions.
        unsafe {
            let library = Library::new("libxenstore.so.4")
                .or_else(|_| Library::new("libxenstore.so.3.0"))
                .ok()?;
            type Open = unsafe extern "C" fn(c_ulong) -> Handle;
            let open: Symbol<Open> = library.get(b"xs_open").ok()?;
            let read = Read::Store(*library.get(b"xs_read").ok()?);
            Some(Texts { handle: NonNull::new(open(0))?, read, _library: Some(library) })
        }
    }

    /// hypfs: what the hypervisor says of itself.
    pub fn hypfs() -> Option<Texts> {
        // SAFETY: Xen's own library, of a version whose interface is fixed.
        unsafe {
            let library = Library::new("libxenhypfs.so.1").ok()?;
            type Open = unsafe extern "C" fn(*mut c_void, c_uint) -> Handle;
            let open: Symbol<Open> = library.get(b"xenhypfs_open").ok()?;
            let read = Read::Hypfs(*library.get(b"xenhypfs_read").ok()?);
            let handle = NonNull::new(open(null_mut(), 0))?;
            Some(Texts { handle, read, _library: Some(library) })
        }
    }

    /// The text at this path.
    pub fn read(&self, path: &str) -> Option<String> {
        let path = CString::new(path).ok()?;
        let handle = self.handle.as_ptr();
        // SAFETY: both return a text with a NUL at its end, or NULL, that is the caller's to free.
        unsafe {
            let text = match self.read {
                Read::Store(read) => {
                    let mut length = 0;
                    read(handle, 0, path.as_ptr(), &raw mut length)
                }
                Read::Hypfs(read) => read(handle, path.as_ptr()),
            };
            let text = NonNull::new(text)?;
            let copy = CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned();
            free(text.as_ptr().cast());
            Some(copy)
        }
    }
}

/// Xen's functions are Rust's own here, so that Miri (`make miri`) sees what is given to them.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Words of a domain's struct in the release that is played.
    const WORDS: usize = 17;
    const DOMAINS: u32 = 70;

    unsafe extern "C" fn get_domains(_: Handle, first: u32, most: c_uint, out: *mut u64) -> c_int {
        let ids = (first..DOMAINS).take(most as usize);
        let found = ids.len() as c_int;
        for (place, id) in ids.enumerate() {
            let flags = match id {
                1 => 1 << 0,
                2 => 1 << 3,
                _ => 1 << 4,
            };
            let id = u64::from(id);
            let mut info = [id; WORDS];
            info[0] = flags << 32 | id;
            (info[7], info[8]) = (1000 * id, 2 << 32 | 1);
            // SAFETY: the caller has room for so many structs.
            unsafe { out.add(place * WORDS).copy_from_nonoverlapping(info.as_ptr(), WORDS) };
        }
        found
    }

    unsafe extern "C" fn get_vcpu(_: Handle, domain: u32, vcpu: u32, out: *mut VcpuInfo) -> c_int {
        if vcpu > 1 {
            return -1;
        }
        // SAFETY: the caller's struct.
        unsafe { out.write(VcpuInfo { vcpu, cpu_time: domain.into(), ..VcpuInfo::default() }) };
        0
    }

    unsafe extern "C" fn get_idle(
        _: Handle,
        most: c_int,
        out: *mut u64,
        filled: *mut c_int,
    ) -> c_int {
        let filled_now = most.min(3);
        for pcpu in 0..filled_now as usize {
            // SAFETY: the caller has room for so many numbers.
            unsafe { out.add(pcpu).write(pcpu as u64) };
        }
        // SAFETY: the caller's number.
        unsafe { filled.write(filled_now) };
        0
    }

    unsafe extern "C" fn refuses_weight(_: Handle, _: u32, _: *mut WeightAndCap) -> c_int {
        -1
    }

    unsafe extern "C" fn tells_weight(_: Handle, domain: u32, out: *mut WeightAndCap) -> c_int {
        // SAFETY: the caller's struct.
        unsafe { out.write(WeightAndCap { weight: domain as u16, cap: 50 }) };
        0
    }

    unsafe extern "C" fn get_machine(_: Handle, out: *mut u32) -> c_int {
        let info = [1, 4, 4, 3, 1, 0, 2_000_000];
        // SAFETY: the caller has room for more.
        unsafe { out.copy_from_nonoverlapping(info.as_ptr(), info.len()) };
        0
    }

    unsafe extern "C" fn close(_: Handle) -> c_int {
        0
    }

    #[test]
    fn what_the_hypervisor_writes_is_read_within_its_bounds() {
        let handle = NonNull::dangling();
        let control = Control {
            domain_words: domain_words(handle, get_domains).unwrap(),
            handle,
            get_vcpu,
            get_domains,
            get_idle,
            get_weight: [refuses_weight, tells_weight],
            get_machine,
            close,
            _library: None,
        };
        assert_eq!(control.domain_words, WORDS);
        // More than one page has room for; of number 1 the end has begun.
        let domains = control.domains().unwrap();
        let ids: Vec<_> = domains.iter().map(|domain| domain.id).collect();
        assert!(ids.iter().copied().eq((0..DOMAINS).filter(|&id| id != 1)));
        let last = DomainInfo {
            id: 69,
            paused: false,
            blocked: true,
            cpu_time: 69_000,
            online: 1,
            vcpus: 3,
        };
        assert_eq!(domains.last(), Some(&last));
        assert_eq!(control.vcpu(7, 1).unwrap().cpu_time, 7);
        assert!(control.vcpu(7, 2).is_none());
        assert_eq!(control.idle_ns(2).unwrap(), [0, 1]);
        assert_eq!(control.idle_ns(8).unwrap(), [0, 1, 2]);
        let WeightAndCap { weight, cap } = control.weight_and_cap(7).unwrap();
        assert_eq!((weight, cap), (7, 50));
        let machine = control.machine().unwrap();
        assert_eq!((machine.pcpus_online, machine.pcpus), (4, 4));
        assert_eq!(machine.tsc_hz, 2_000_000_000);
    }

    unsafe extern "C" {
        fn malloc(size: usize) -> *mut c_void;
    }

    unsafe extern "C" fn read_hypfs(_: Handle, path: *const c_char) -> *mut c_char {
        // SAFETY: the caller's text; a copy of it is given away.
        unsafe {
            let path = CStr::from_ptr(path).to_bytes_with_nul();
            if path == b"/nothing\0" {
                return null_mut();
            }
            let copy: *mut c_char = malloc(path.len()).cast();
            copy.copy_from_nonoverlapping(path.as_ptr().cast(), path.len());
            copy
        }
    }

    #[test]
    fn texts_are_copied_and_given_back() {
        let handle = NonNull::dangling();
        let texts = Texts { handle, read: Read::Hypfs(read_hypfs), _library: None };
        assert_eq!(texts.read("/params").as_deref(), Some("/params"));
        assert_eq!(texts.read("/nothing"), None);
        assert_eq!(texts.read("with\0nul"), None);
    }
}
