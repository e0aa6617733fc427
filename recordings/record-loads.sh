#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Makes the loads on which docs/what-if.md measures how far replays are off, and records each by `steelyard
# record` and by perf at the same time, with a description of the host for perf's.
#
#   sudo recordings/record-loads.sh STEELYARD DIRECTORY [SECONDS [LOAD...]]
#
# STEELYARD is the command, built with --features kvm; recordings come into DIRECTORY, each of SECONDS (8). LOAD: only
# these. Needs
# Linux with cgroups of version 1, where control groups of their own are made and removed again, gcc, perf and
# taskset. The recorders are real-time threads, so that they are not late. Whatever happens all that it starts is gone after a minute.

set -euo pipefail

steelyard=$(realpath "$1")
directory=$(realpath "$2")
seconds=${3:-8}
shift $(($# < 3 ? $# : 3))
groups=/sys/fs/cgroup/cpu/steelyard-load- # and its name
lifetime_s=$((seconds + 15))
settle_s=3

pids=()
work=$(mktemp -d)
clean_up() {
	trap - EXIT
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	wait
	remove_groups
	rm -rf "$work"
}
# Inner ones first.
remove_groups() {
	local group
	for group in "$groups"*; do
		[[ ! -d $group ]] || find "$group" -depth -type d -exec rmdir {} +
	done
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

load=$work/load
gcc -O2 -o "$load" "$(dirname "$0")/load.c" -lpthread -lm

# A process called $1 in group $2 (a path, or `-`: in none, in a session of its own), begun by $3, with these threads.
start() {
	local name=$1 group=$2 how=$3
	shift 3
	ln -sf "$load" "$work/$name"
	(
		[[ $group == - ]] || echo "$BASHPID" >"$groups$group/cgroup.procs"
		# shellcheck disable=SC2086 # words of a command
		exec setsid $how "$work/$name" "$lifetime_s" "${#pids[@]}" "$@"
	) &
	pids+=($!)
}

# Group $1 with so many shares.
group() {
	mkdir -p "$groups$1"
	echo "$2" >"$groups$1/cpu.shares"
}

cpu() { echo "CPU $1/KVM=duty,$2,$3"; }
busy=(10000 0)

flat() {
	group all 8192
	start vm-busy all "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-duty all "" "$(cpu 0 5000 10000)" "$(cpu 1 5000 10000)"
	start vm-short all "" "$(cpu 0 300 700)" "main=duty,100,2000"
	start batch all "nice -n 5" "one=duty,10000,0"
}

shares() {
	group a 2048
	group b 1024
	group c 512
	group d 1024
	start vm-a a "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-b b "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 4000 4000)"
	start vm-c c "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start batch d "" "one=duty,5000,5000" "two=duty,5000,5000"
}

sessions() {
	start vm-a - "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-b - "" "$(cpu 0 5000 10000)" "$(cpu 1 5000 10000)" "main=duty,200,3000"
	start batch - "nice -n 10" "one=duty,10000,0"
}

nested() {
	group slice 2048
	group slice/a 512
	group slice/b 2048
	group c 1024
	start vm-a slice/a "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-b slice/b "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 6000 3000)"
	start vm-c c "" "$(cpu 0 10000 5000)" "$(cpu 1 10000 5000)"
}

# As libvirt has them: a scope for each in the slice of all machines, in it a group for each vCPU and one for the emulator.
machine() {
	local name=$1 shares=$2 thread number child
	group "slice/$name.scope" "$shares"
	start "vm-$name" "slice/$name.scope" "" "${@:3}"
	# Until it has become that process, with its threads.
	until (($(cat /proc/"$!"/task/*/comm | grep -c '^CPU ./KVM') == $# - 3)); do sleep 0.1; done
	for thread in /proc/"$!"/task/*; do
		child=emulator
		read -r number <"$thread/comm"
		[[ $number != CPU\ * ]] || child=vcpu${number//[^0-9]/}
		group "slice/$name.scope/libvirt/$child" 1024
		echo "${thread##*/}" >"${groups}slice/$name.scope/libvirt/$child/tasks"
	done
}

libvirt() {
	group slice 1024
	machine a "${1:-2048}" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")" "main=duty,100,2000"
	machine b 1024 "$(cpu 0 "${busy[@]}")" "$(cpu 1 4000 1000)" "main=duty,500,2000"
	start batch - "" "one=duty,10000,0"
}
# To see whether a what-if of a weight is right: of vm-a's 2048 the half, and the quarter.
libvirt_1024() { libvirt 1024; }
libvirt_512() { libvirt 512; }

wakers() {
	group all 8192
	start vm-ring all "" "CPU 0/KVM=pass,400" "CPU 1/KVM=pass,200" "io=pass,100"
	start vm-pair all "" "CPU 0/KVM=pass,3000" "main=pass,50"
	start vm-busy all "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-duty all "" "$(cpu 0 4000 8000)"
}

pinned() {
	group a 1024
	group b 1024
	group c 1024
	start vm-a a "taskset -c 0" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-b b "taskset -c 1" "$(cpu 0 8000 4000)"
	start vm-c c "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
}

# Beside processes that live for a moment each, in a session of their own.
compilers() {
	local source
	source=$(realpath "$(dirname "$0")/load.c")
	group a 1024
	start vm-a a "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 4000 4000)"
	start vm-b - "" "$(cpu 0 3000 6000)" "$(cpu 1 1000 3000)"
	# shellcheck disable=SC2016 # expanded by that shell
	nice -n 15 setsid timeout "$lifetime_s" bash -c 'while gcc -O2 -c -o /dev/null "$1"; do :; done' - "$source" &
	pids+=($!)
}

# The same on one CPU: nothing moves, and what differs is what happens within a queue.
one_flat() {
	group all 8192
	start vm-busy all "taskset -c 1" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-duty all "taskset -c 1" "$(cpu 0 5000 10000)" "$(cpu 1 5000 10000)"
	start vm-short all "taskset -c 1" "$(cpu 0 300 700)" "main=duty,100,2000"
}

one_groups() {
	group a 2048
	group b 1024
	group c 1024
	start vm-a a "taskset -c 1" "$(cpu 0 "${busy[@]}")" "$(cpu 1 "${busy[@]}")"
	start vm-b b "taskset -c 1" "$(cpu 0 5000 10000)" "$(cpu 1 5000 10000)"
	start vm-c c "taskset -c 1" "$(cpu 0 300 700)" "main=duty,100,2000"
}

# Held out: written down, and not looked at, before replays were made better on those above.
held_mixed() {
	group a 4096
	group b 512
	group b/inner 1024
	start vm-a a "" "$(cpu 0 2000 6000)" "$(cpu 1 7000 3000)" "io=duty,150,1500"
	start vm-b b/inner "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 4000 2000)"
	start vm-c - "" "$(cpu 0 12000 4000)" "CPU 1/KVM=pass,500" "io=pass,80"
	start batch b "nice -n 5" "one=duty,10000,0"
}

held_crowd() {
	local vm
	for vm in a b c d e; do
		group "$vm" 1024
	done
	start vm-a a "" "$(cpu 0 3000 6000)" "$(cpu 1 3000 6000)"
	start vm-b b "" "$(cpu 0 10000 3000)" "$(cpu 1 1000 1000)"
	start vm-c c "" "$(cpu 0 500 1500)" "$(cpu 1 500 1500)" "$(cpu 2 500 1500)"
	start vm-d d "" "$(cpu 0 "${busy[@]}")"
	start vm-e e "" "$(cpu 0 20000 20000)" "$(cpu 1 20000 20000)"
}

held_urgent() {
	group a 1024
	group b 1024
	start vm-a a "" "$(cpu 0 "${busy[@]}")" "$(cpu 1 5000 5000)"
	start vm-b b "" "$(cpu 0 4000 4000)" "$(cpu 1 "${busy[@]}")" "io=duty,200,2000"
	start urgent - "chrt -r 5" "one=duty,500,4000"
	start vm-c - "nice -n -5" "$(cpu 0 3000 9000)"
}

(($# > 0)) || set -- flat shares sessions nested wakers pinned compilers one_flat one_groups held_mixed held_crowd held_urgent
# Ticks that this machine, if it is a guest, wanted to run and did not.
steal() { awk '$1 == "cpu" { print $9 }' /proc/stat; }

for name; do
	pids=()
	"$name"
	sleep "$settle_s"
	chrt -r 1 perf sched record -q -m 8M -o "$work/perf.data" -- sleep "$((seconds + 1))" >"$work/perf.log" 2>&1 &
	recorder=$!
	stolen=$(steal)
	chrt -r 1 "$steelyard" record -o "$directory/$name.steelyard" --length "${seconds}s" >"$work/record.log" 2>&1
	"$steelyard" describe -o "$directory/$name.host.toml"
	wait "$recorder"
	kill "${pids[@]}" 2>/dev/null || true
	wait
	perf script --ns -F comm,pid,tid,cpu,time,event,trace -i "$work/perf.data" 2>/dev/null |
		zstd -q -f -o "$directory/$name.perf.txt.zst"
	remove_groups
	echo "$name: $(($(steal) - stolen)) ticks of $(($(nproc) * seconds * $(getconf CLK_TCK))) stolen by this machine's own host"
done
