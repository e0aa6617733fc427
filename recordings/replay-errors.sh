#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Says how far replays of recordings are off, a line each and one for all, and with -v for each domain that counts:
#
#   recordings/replay-errors.sh [-v] [-a DIRECTORY] STEELYARD RECORDING...
#
# With -a each is held against the recording of the same name in that directory, in place of its replay: what chance makes
# of the same load.
#
# Columns: domains; points of share in the mean and at worst; factors of the p99 of waits in the median and at worst,
# as `steelyard compare` shows them. Needs jq.

set -euo pipefail

verbose=
again=
while getopts va: option; do
	case $option in
	v) verbose=1 ;;
	a) again=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
steelyard=$1
shift

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# Of each domain what was recorded and what was replayed, as one list.
domains() {
	"$steelyard" compare "$1" --policy credit --json 2>/dev/null | jq -c '.comparisons[0].replay_error.domains'
}

for file; do
	other=${again:+$(domains "$again/$(basename "$file")")}
	domains "$file" | jq -c --arg file "$(basename "$file")" --argjson other "${other:-null}" '
		(if $other then [$other[] | {(.name): .recorded}] | add else null end) as $recorded_again
		| .[] | if $other then .replayed = $recorded_again[.name] else . end
		| select(.recorded.share_percent > 3 and .replayed)
		| {file: $file, name, recorded, replayed, waits_recorded}' >>"$errors"
done

jq -rs --arg verbose "$verbose" '
	def round1(n): . * n | round / n;
	def median: sort | if length == 0 then null elif length % 2 == 1 then .[length / 2 | floor]
		else (.[length / 2 - 1] + .[length / 2]) / 2 end;
	def least_wait: [., 100000] | max;
	def factor: [.recorded.wait_p99_ns, .replayed.wait_p99_ns] | map(least_wait) | max / min;
	def points: .replayed.share_percent - .recorded.share_percent;
	def sums: (map(points | if . < 0 then -. else . end)) as $points
		| (map(select(.waits_recorded) | factor)) as $factors
		| [length, ($points | add / length | round1(10)), ($points | max | round1(10)),
			($factors | median // 1 | round1(100)), ($factors | max // 1 | round1(100))];
	def ms: . / 1e6 | round1(100);
	def domain: ["  " + .name, "share", (.recorded.share_percent | round1(10)), (.replayed.share_percent | round1(10)),
		"waited", (.recorded.waited_percent | round1(10)), (.replayed.waited_percent | round1(10)),
		"p99", (.recorded.wait_p99_ns | ms), (.replayed.wait_p99_ns | ms),
		"worst", (.recorded.worst_wait_ns | ms), (.replayed.worst_wait_ns | ms)];
	(group_by(.file)[] | ([.[0].file] + sums), (if $verbose == "" then empty else .[] | domain end)),
	(["all"] + sums) | map(tostring) | join("\t")' "$errors" | column -t -s "$(printf '\t')"
