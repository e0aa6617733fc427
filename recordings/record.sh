#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes four-vms.perf.txt.zst: boots four small QEMU virtual machines with
# different work in each, records how the host's kernel schedules them, and
# writes the recording as `perf script` text, compressed.
#
#   sudo recordings/record.sh [SECONDS [OUTPUT]]
#
# SECONDS is the length of the recording (default 8), OUTPUT the file to
# write (default four-vms.perf.txt.zst beside this script). perf's own binary
# file goes to the path in PERF_DATA, if that is set.
#
# Needs Debian 12 or newer on x86-64, root and the network (for packages). It
# takes about a minute; whatever happens the machines are gone after five.
# What each machine does, and on what the shipped file was recorded, is in
# README.md.

set -euo pipefail

seconds=${1:-8}
output=$(realpath -m "${2:-$(dirname "$0")/four-vms.perf.txt.zst}")

vm_lifetime_s=300
boot_timeout_s=120
settle_s=3
web_port=18980 # on the host's loopback interface
web_clients=2
web_pages_per_s=5 # each client
mib=$((1024 * 1024))

die() {
	echo "record.sh: $*" >&2
	exit 1
}

[[ $seconds =~ ^([1-9]|[1-9][0-9]|1[01][0-9]|120)$ ]] ||
	die "the length must be 1 to 120 seconds, not '$seconds'"
((EUID == 0)) || die "reading the kernel's scheduler events needs root"

# /var/tmp, since cache=none needs a file system with direct I/O, and /tmp may
# be in memory.
work_dir=$(mktemp -d /var/tmp/steelyard-record.XXXXXX)
pids=()
stop_vms() {
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	pids=()
	wait
}
clean_up() {
	trap - EXIT
	stop_vms
	rm -rf "$work_dir"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- what it needs ----------------------------------------------------------

missing=()
for package in linux-perf qemu-system-x86 busybox-static cpio curl zstd; do
	dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if ((${#missing[@]} > 0)); then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi
mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing

# The guests' kernel is unpacked, not installed: the host keeps its own.
kernel_package=$(apt-cache depends --important linux-image-cloud-amd64 |
	awk '$1 == "Depends:" && $2 ~ /^linux-image/ { print $2; exit }')
[[ -n $kernel_package ]] || die "no package linux-image-cloud-amd64: is this Debian?"
(cd "$work_dir" && apt-get -q -o APT::Sandbox::User=root download "$kernel_package")
dpkg -x "$work_dir/$kernel_package"_*.deb "$work_dir/kernel"
kernel=$(find "$work_dir/kernel" -name 'vmlinuz*' -print -quit)
[[ -n $kernel ]] || die "$kernel_package holds no kernel image"

# --- the initramfs: busybox, a few modules, and the work --------------------

root=$work_dir/root
modules=$(find "$work_dir/kernel" -path '*/lib/modules/*' -name kernel -type d -print -quit)
release=$(basename "$(dirname "$modules")")
mkdir -p "$root"/{bin,dev,proc,sys,"lib/modules/$release",www/cgi-bin}
cp "$(command -v busybox)" "$root/bin/busybox"
find "$modules" \( -name 'virtio*.ko*' -o -name '*failover.ko*' \) \
	-exec cp {} "$root/lib/modules/$release/" \;
busybox depmod -b "$root" "$release"

cat >"$root/init" <<'END'
#!/bin/busybox sh
# First process of a virtual machine: does the work that work=NAME on the
# kernel's command line names; the kernel hands that over as $work.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
modprobe -a virtio_pci virtio_blk virtio_net

compute() { while :; do :; done; }

# A fixed number of steps (20 to 30 ms), then a sleep. `read` from a pipe that
# nobody writes to sleeps without starting a process.
duty() {
	mkfifo "/never-$1"
	while :; do
		step=0
		while [ $step -lt 1300 ]; do step=$((step + 1)); done
		read -r -t 0.1 nothing <>"/never-$1"
	done
}

disk() {
	while :; do
		dd if=/dev/zero of=/dev/vda bs=64k count=32 oflag=direct
		dd if=/dev/vda of=/dev/null bs=64k count=64 iflag=direct
		sleep 0.2
	done 2>/dev/null
}

web() {
	ip link set eth0 up &&
		ip address add 10.0.2.15/24 dev eth0 &&
		httpd -h /www
}

case $work in
compute)
	compute &
	compute &
	;;
duty)
	for cpu in 0 1; do
		duty $cpu &
		taskset -p $((1 << cpu)) $! >/dev/null
	done
	;;
disk)
	[ -b /dev/vda ] || exit
	disk &
	;;
web) web || exit ;;
esac
echo "at work: $work"
while :; do sleep 1000; done
END

cat >"$root/www/cgi-bin/page" <<'END'
#!/bin/busybox sh
printf 'Content-Type: text/plain\r\n\r\n'
line=0
while [ $line -lt 200 ]; do
	echo "line $line of a page that is made anew for each request"
	line=$((line + 1))
done
END
chmod 755 "$root/init" "$root/www/cgi-bin/page"
(cd "$root" && find . | cpio --quiet -o -H newc) >"$work_dir/initramfs"

# --- the virtual machines ---------------------------------------------------

# start_vm WORK VCPUS [QEMU-ARGUMENT...]: the domain is called vm-WORK.
start_vm() {
	local work=$1 vcpus=$2
	shift 2
	timeout --kill-after=5 "$vm_lifetime_s" qemu-system-x86_64 \
		-name "vm-$work,process=vm-$work,debug-threads=on" \
		-accel tcg,thread=multi -cpu max -smp "$vcpus" -m 128 \
		-nodefaults -display none -no-reboot -serial "file:$work_dir/$work.log" \
		-kernel "$kernel" -initrd "$work_dir/initramfs" \
		-append "console=ttyS0 panic=-1 quiet work=$work" "$@" &
	pids+=($!)
}

truncate -s $((64 * mib)) "$work_dir/disk.raw"
start_vm compute 2 -nic none
start_vm duty 2 -nic none
start_vm disk 1 -nic none -drive "file=$work_dir/disk.raw,format=raw,if=virtio,cache=none"
start_vm web 2 -nic "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:$web_port-:80"

works=(compute duty disk web) # in the order of pids
deadline=$((SECONDS + boot_timeout_s))
for i in "${!works[@]}"; do
	log=$work_dir/${works[i]}.log
	until grep -qs "at work: ${works[i]}" "$log"; do
		kill -0 "${pids[i]}" 2>/dev/null ||
			die "vm-${works[i]} ended before its work began: $(tail -n 3 "$log" 2>&1)"
		((SECONDS < deadline)) || die "vm-${works[i]} takes too long to boot"
		sleep 0.5
	done
done

# The clients of vm-web: each is one process throughout, so that the recording
# is not filled with forks, and asks for the next page when the last one is
# there and its interval is over.
for ((i = 0; i < web_clients; i++)); do
	timeout --kill-after=5 "$vm_lifetime_s" curl --silent --fail --max-time 5 \
		--rate "$web_pages_per_s/s" --output /dev/null \
		--write-out '%{stderr}%{http_code} %{time_total}\n' \
		"http://127.0.0.1:$web_port/cgi-bin/page?[1-100000]" 2>"$work_dir/pages-$i.log" &
	pids+=($!)
done
sleep "$settle_s"

# --- the recording ----------------------------------------------------------

# Large buffers, so that perf neither loses an event nor wakes up often.
perf_data=${PERF_DATA:-$work_dir/perf.data}
perf sched record -m 32M --no-buildid --no-buildid-cache -o "$perf_data" -- sleep "$seconds"

stop_vms

awk '$1 == 200 { pages++; seconds += $2 }
	END { if (!pages) exit 1; printf "vm-web: %d pages, %.3f s each\n", pages, seconds / pages }
' "$work_dir"/pages-*.log || die "vm-web served no page"
! perf report -i "$perf_data" --stats | grep LOST >&2 || die "perf lost events"

perf script -i "$perf_data" --ns -F comm,pid,tid,cpu,time,event,trace \
	>"$work_dir/text" 2>"$work_dir/script.log" ||
	die "perf script: $(cat "$work_dir/script.log")"
zstd -q -19 --force "$work_dir/text" -o "$output"
echo "$output: $(wc -l <"$work_dir/text") events, $(stat -c %s "$output") bytes"
