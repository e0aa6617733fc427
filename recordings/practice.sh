#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Two processes whose threads are called as QEMU's, each in a control group of its own: a host to practise on for who
# has no virtual machine at hand (docs/tutorial.md). `build` always computes, on two vCPUs; `shop` answers: 2 ms of
# work, 10 ms of sleep. For so many seconds, then all is removed.
#
#	sudo recordings/practice.sh [SECONDS]
set -eu

seconds=${1:-300}
work=$(mktemp -d)
groups=/sys/fs/cgroup
[ ! -e $groups/cpu/cpu.shares ] || groups=$groups/cpu
[ ! -e $groups/cgroup.subtree_control ] || echo +cpu >$groups/cgroup.subtree_control

pids=
clean_up() {
	trap - EXIT
	# Who is started in the background by a shell like this does not heed Ctrl-C.
	# shellcheck disable=SC2086 # numbers
	[ -z "$pids" ] || kill $pids 2>/dev/null || true
	wait
	rmdir "$groups/practice-build" "$groups/practice-shop"
	rm -r "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

${CC:-gcc} -O2 -o "$work/load" "$(dirname "$0")/load.c" -lpthread -lm

# A process called $1, with these threads.
start() {
	name=$1
	shift
	mkdir "$groups/practice-$name"
	ln -s load "$work/$name"
	# shellcheck disable=SC2016 # the inner shell's own number
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$groups/practice-$name" "$work/$name" "$seconds" 1 "$@" &
	pids="$pids $!"
}
start build 'CPU 0/KVM=duty,10000,0' 'CPU 1/KVM=duty,10000,0'
start shop 'CPU 0/KVM=duty,2000,10000'
echo "build and shop run for $seconds s"
wait
