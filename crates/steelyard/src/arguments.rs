// SPDX-License-Identifier: GPL-2.0-only
//! The command line and its help.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use steelyard_run::{MOST_SETTINGS, MOST_THREADS};
use steelyard_scenario::Options;
use steelyard_simulator::limits;
use steelyard_simulator::units::Nanoseconds;
use steelyard_tune::Vary;

use crate::policies;
use crate::reproduce::{self, SEEDS, UNEXPECTED};

/// A heading as clap writes its own.
macro_rules! examples {
    ($($line:literal)*) => { concat!("\x1b[1m\x1b[4mExamples:\x1b[0m", $("\n  ", $line,)*) };
}

const EXIT_CODES: &str = "\x1b[1m\x1b[4mExit codes:\x1b[0m
  0  done
  1  something could not be written
  2  bad input or usage: one message says where, nothing is written
  130  interrupted by Ctrl-C (143 by SIGTERM): nothing is left half-written";

/// What this program was built from and with.
const BUILT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("STEELYARD_COMMIT"),
    "\nfeatures: ",
    env!("STEELYARD_FEATURES"),
);

/// Compares CPU schedulers for virtual machines.
///
/// Steelyard simulates a host with more virtual CPUs than CPUs under schedulers of Xen, of Linux and
/// from research, and shows which serves which virtual machine best, and why.
#[derive(Debug, Parser)]
#[command(
    name = "steelyard",
    version,
    long_version = BUILT,
    after_help = examples!(
        "steelyard compare scenarios/first-look.toml"
        "steelyard compare recordings/four-vms.perf.txt.zst --out report"
        "steelyard reproduce mcredit2"
        "steelyard policies credit2"
    ),
    after_long_help = format!("{}\n\n{EXIT_CODES}", examples!(
        "steelyard compare scenarios/first-look.toml"
        "steelyard compare recordings/four-vms.perf.txt.zst --out report"
        "steelyard reproduce all --out reproduction"
        "steelyard policies credit2"
        "steelyard import /etc/libvirt/qemu/web.xml > web.toml"
    )),
)]
pub struct Arguments {
    // No doc comments: clap would show them.
    #[allow(missing_docs)]
    #[command(flatten)]
    pub color: colorchoice_clap::Color,
    #[allow(missing_docs)]
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Compare(Compare),
    Advise(Advise),
    Tune(Tune),
    Reproduce(Reproduce),
    /// List the policies with their parameters, units, defaults and sources.
    #[command(after_help = examples!(
        "steelyard policies                 everything"
        "steelyard policies credit          one discipline"
        "steelyard policies --json | jq -r '.[].parameters[].name'"
    ))]
    Policies {
        /// Only this discipline or governor.
        #[arg(value_parser = PossibleValuesParser::new(policies::parts()))]
        name: Option<String>,
        /// For programs: a JSON array of disciplines and governors.
        #[arg(long)]
        json: bool,
    },
    /// Turn a recording, a VM description or a directory of these into a scenario, to look at and edit.
    ///
    /// Reads what `compare` reads, and of a directory all descriptions in it, as one host. What the file does not say
    /// (of a VM description: the host and what runs in the VM) is filled in and marked by a comment, and so is what is
    /// left out. A scenario of a recording names the recording relative to its own directory: keep them together, with
    /// the host's description; where that was named by `--host`, name it to `compare` too.
    #[command(after_help = examples!(
        "steelyard import web.xml                      libvirt, as from `virsh dumpxml web`"
        "steelyard import guest.cfg -o guest.toml      xl.cfg"
        "steelyard import /etc/libvirt/qemu -o host.toml   all virtual machines of a host"
        "steelyard import night.host.toml -o host.toml     what `steelyard describe` wrote of one"
        "steelyard import host.perf.txt.zst -o host.toml"
    ))]
    Import {
        /// Recording (of `steelyard record`, `perf script` text), libvirt domain XML, xl.cfg, what `xe vm-list
        /// params=all` prints or `steelyard describe` writes, or a directory of descriptions.
        #[arg(value_hint = ValueHint::AnyPath)]
        file: PathBuf,
        /// What `steelyard describe` wrote of the recorded host; without it what is beside the recording.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        host: Option<PathBuf>,
        /// File to write instead of standard output; replaced if it is there, unless it is read.
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Let a policy schedule the vCPUs of this Linux host.
    Kvm {
        #[command(subcommand)]
        command: crate::kvm::Command,
    },
    /// Ask something of Steelyard's scheduler in this host's Xen, from dom0.
    Xen {
        #[command(subcommand)]
        command: crate::xen::Command,
    },
    Govern(Govern),
    Describe(Describe),
    Top(Top),
    Record(Record),
    /// Turn a recording of any kind into a trace that Perfetto opens, or into one of `steelyard record`.
    ///
    /// A file to be called .steelyard becomes a recording as of `steelyard record`; any other, a trace: each
    /// run and wait, and counters. Reads recordings of `record`, `perf script`, xentrace and Perfetto.
    #[command(after_help = examples!(
        "steelyard convert night.steelyard -o night.json.gz    then open it in ui.perfetto.dev"
        "steelyard convert host.xentrace -o host.steelyard"
    ))]
    Convert {
        /// Recording of any kind: of `record`, `perf script` text, xentrace's (`-e 0x29000`), Perfetto's.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// Frequency of the time stamp counter, for a file of `xentrace` that does not tell it.
        #[arg(long, value_name = "HZ")]
        tsc_hz: Option<NonZeroU64>,
        /// What `steelyard describe` wrote of the recorded host; without it what is beside the recording.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        host: Option<PathBuf>,
        /// File to write, or `-` for standard output; replaced if it is there, unless it is read.
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: PathBuf,
    },
    Export(Export),
    Apply(Apply),
    Undo(Undo),
    /// Print the JSON Schema of scenario files, for editors.
    #[command(after_help = examples!(
        "steelyard schema > scenario.schema.json"
    ))]
    Schema,
    /// Print a script that completes this command line in a shell.
    #[command(after_help = examples!(
        "steelyard completions bash > ~/.local/share/bash-completion/completions/steelyard"
        "steelyard completions zsh > \"${fpath[1]}/_steelyard\""
        "steelyard completions fish > ~/.config/fish/completions/steelyard.fish"
    ))]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page of this program or of one of its commands.
    #[command(after_help = examples!(
        "steelyard man | man -l -"
        "steelyard man compare > steelyard-compare.1"
    ))]
    Man {
        /// The command; without it the program's own page.
        command: Option<String>,
    },
}

/// Any text: who reads it says what is wrong with it. Completions offer the names that are known.
#[derive(Clone)]
pub struct Offering(pub fn() -> Vec<String>);

impl TypedValueParser for Offering {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A number of seeds, which says what is wrong with another.
fn seeds() -> impl TypedValueParser<Value = NonZeroU32> {
    let most = limits::SEEDS.most as i64;
    clap::value_parser!(u32).range(1..=most).try_map(NonZeroU32::try_from)
}

/// So many threads that a host can bear them.
fn threads() -> impl TypedValueParser<Value = NonZeroUsize> {
    let range = clap::value_parser!(u32).range(1..=MOST_THREADS as i64);
    range.try_map(|number| NonZeroUsize::try_from(number as usize))
}

/// Settings that a search tries: one at least, that of the host as it is.
fn settings() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(1..=MOST_SETTINGS.into())
}

/// How inputs are simulated.
#[derive(Args, Clone, Debug)]
pub struct Simulated {
    /// What schedules the host that an input stands for, where a recording does not say so.
    ///
    /// It is always simulated: how far it is from what was recorded is the error of replays. `advise` and `tune` take it
    /// for what a scenario's host has, too, instead of the first of its policies, and ask for it where it has none.
    #[arg(
        long, value_name = "P",
        hide_possible_values = true, value_parser = Offering(|| policies::names().collect()),
    )]
    pub own: Option<String>,
    /// Number of seeds to run everything with, instead of that of the input.
    #[arg(short, long, value_name = "N", value_parser = seeds())]
    pub seeds: Option<NonZeroU32>,
    /// What `steelyard describe` wrote of a recorded host, for recordings of perf, Perfetto and xentrace.
    ///
    /// Without it that is looked for beside the recording: of night.perf.txt in night.host.toml.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub host: Option<PathBuf>,
    /// Change a setting; may be given several times.
    ///
    /// A key that begins with a discipline or governor is a parameter of it
    /// (credit.slice_ns=5000000); any other is the way to a setting of the scenario, where an item of a list goes by its name or its
    /// number (domain.web.weight=512).
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Runs at a time, at most 1024; without it one per CPU. It changes no result.
    #[arg(short = 'j', long, value_name = "N", value_parser = threads())]
    pub threads: Option<NonZeroUsize>,
}

/// How to load an input of which the host as it is matters.
pub fn options(simulated: &Simulated) -> Options {
    Options {
        policies: simulated.own.iter().cloned().collect(),
        seeds: simulated.seeds.map(u32::from),
        set: simulated.set.clone(),
        own: simulated.own.clone(),
        host: simulated.host.clone(),
    }
}

/// Run inputs under several policies and show who is served best.
///
/// Every policy runs once with every seed. The table has the policies side by side: on one screen how long each
/// virtual machine waits; with --all its share of CPU time against entitlement, the worst waits and what the
/// workloads say of themselves too.
///
/// Two recordings, and nothing said of how to simulate them, are held against each other as they are: what a
/// change between them brought, and how much of it may be chance.
///
/// The same inputs, policies and seeds give the same bytes, whatever the number of threads.
#[derive(Args, Debug)]
#[command(
    after_help = examples!(
        "steelyard compare scenarios/first-look.toml"
        "steelyard compare scenarios/first-look.toml --policy credit,credit2 --seeds 10"
        "steelyard compare host.perf.txt.zst --out report"
        "steelyard compare before.steelyard after.steelyard"
    ),
    after_long_help = format!("{}\n\n{EXIT_CODES}", examples!(
        "steelyard compare scenarios/first-look.toml"
        "steelyard compare scenarios/first-look.toml --policy credit,credit2 --seeds 10"
        "steelyard compare scenarios/first-look.toml --set credit.slice_ns=5000000 --set length='30 s'"
        "steelyard compare scenarios/first-look.toml --set domain.web.weight=1024"
        "steelyard compare host.perf.txt.zst web.xml guest.cfg --out report"
        "steelyard compare scenarios/first-look.toml --json | jq '.comparisons[0].runs[].fairness'"
    )),
)]
pub struct Compare {
    /// Scenarios (.toml), recordings (of `steelyard record`, `perf script` text), libvirt domain XML, xl.cfg.
    #[arg(required = true, value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Policies instead of those of the input, such as credit, credit@xen-4.5, credit2+reset-boost.
    ///
    /// `steelyard policies` lists them. Without a vintage the newest one is meant; where neither
    /// input nor command line names a policy, the newest of every discipline.
    #[arg(
        short,
        long = "policy",
        value_name = "P,P,...",
        value_delimiter = ',',
        hide_possible_values = true,
        // Governors may be added to these.
        value_parser = Offering(|| policies::names().collect()),
    )]
    pub policies: Vec<String>,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub simulated: Simulated,
    /// Directory for report.html, results.json, results.csv and trace.json.gz.
    ///
    /// It is made if it is not there; files of these names are replaced. The trace covers at most
    /// one second around the worst wait of each policy's first seed.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Every figure of every domain, however long that is, instead of one screen.
    #[arg(long, conflicts_with = "json")]
    pub all: bool,
    /// For programs: results.json (of two recordings what differs) instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Say what hurts which VM of a host, and what to change, with the command to type.
///
/// The host is simulated as it is, and again with each change that may help: weights, caps, pins, slices and numbers of
/// vCPUs of those who are hurt and of those who ran meanwhile, and every other scheduler. What does not help in
/// every run is left out; nothing to gain is an answer. What gains more on top of the best is shown
/// together with it. docs/advise.md says what counts as hurt.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "steelyard advise night.steelyard"
    "steelyard advise scenarios/first-look.toml --own credit@xen-4.20"
    "steelyard advise host.toml --all"
    "steelyard advise night.steelyard --plan plan.toml && sudo steelyard apply plan.toml"
    "steelyard advise host.toml --json | jq -r '.settings[0].commands[]'"
))]
pub struct Advise {
    /// Recording, scenario (.toml), libvirt domain XML or xl.cfg.
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub simulated: Simulated,
    /// File for a plan of `steelyard apply`: weights, caps, slices and pins of the first advice, if there is one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,
    /// Everybody who is hurt and everything that helps, however long that is.
    #[arg(long)]
    pub all: bool,
    /// For programs: all of it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Search for the scheduler and the settings that serve your goals best.
///
/// Say which figure is to be as small or as great as it can be, and what is to be kept meanwhile. Hundreds of settings
/// are simulated beside the host as it is. The best is judged by runs that the search has not seen: other seeds, and of
/// a recording the later half. What is not better in nine of ten of them is no gain; nothing to gain is an answer. The
/// same question gives the same bytes, whatever the number of threads. docs/tune.md lists metrics and units.
#[derive(Args, Debug)]
#[command(
    after_help = examples!(
        "steelyard tune host.toml --minimise 'web: wait p99' --keep 'batch: share >= 80 % of entitled'"
        "steelyard tune night.steelyard --minimise 'db*: wait p99' --vary weight,slice"
    ),
    after_long_help = format!("{}\n\n{EXIT_CODES}", examples!(
        "steelyard tune host.toml --minimise 'web: wait p99' --keep 'batch: share >= 80 % of entitled'"
        "steelyard tune host.toml --minimise 'web: wait p99' --maximise 'batch: share' --page front.html"
        "steelyard tune night.steelyard --minimise 'db*: wait p99' --vary weight,slice"
        "steelyard tune host.toml --minimise 'all: worst wait' --keep 'all: share >= 90 % of now'"
        "steelyard tune host.toml --minimise 'web: response time p99' --policy credit,credit2"
        "steelyard tune host.toml --minimise 'web: wait p99' --settings 2000 --state search.jsonl"
        "steelyard tune host.toml --minimise 'web: wait p99' --vary weight,slice --plan plan.toml"
    )),
)]
pub struct Tune {
    /// Recording, scenario (.toml), libvirt domain XML or xl.cfg.
    #[arg(value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub input: PathBuf,
    /// A figure to become as small as it can, such as 'web: wait p99'; may be given several times.
    ///
    /// DOMAIN is a name, a beginning with * behind it, `all`, or `host`; of several domains the one that is worst off
    /// counts. With several goals the answer is a front: settings of which none is better than another in all goals.
    #[arg(
        long,
        visible_alias = "minimize",
        value_name = "DOMAIN: METRIC",
        allow_hyphen_values = true,
        required_unless_present = "maximise"
    )]
    pub minimise: Vec<String>,
    /// A figure to become as great as it can; may be given several times.
    #[arg(
        long,
        visible_alias = "maximize",
        value_name = "DOMAIN: METRIC",
        allow_hyphen_values = true
    )]
    pub maximise: Vec<String>,
    /// What must hold, such as 'batch: share >= 80 % of entitled'; may be given several times.
    ///
    /// DOMAIN: METRIC >= VALUE or <= VALUE, with a unit, `% of now`, or, of shares, `% of entitled`: of what the
    /// weights of now give. It has to hold for each domain that it is about, in the median over seeds.
    #[arg(long, value_name = "BOUND", allow_hyphen_values = true)]
    pub keep: Vec<String>,
    /// What may be changed: policy, parameters, weight, cap, slice.
    #[arg(
        long, value_name = "W,W,...", value_delimiter = ',',
        default_value = "policy,parameters,weight", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(Vary::ALL.map(|(name, _)| name)),
    )]
    pub vary: Vec<String>,
    /// Policies to choose from, as they are; without it all, with every governor that suits them.
    #[arg(
        short, long = "policy", value_name = "P,P,...", value_delimiter = ',',
        hide_possible_values = true, value_parser = Offering(|| policies::names().collect()),
    )]
    pub policies: Vec<String>,
    /// How many settings to try, at most 5000.
    #[arg(long, value_name = "N", default_value = "500", value_parser = settings())]
    pub settings: u32,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub simulated: Simulated,
    /// File to keep the search in, and to go on from if it is there: the same result, to the byte.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub state: Option<PathBuf>,
    /// File for a plan of `steelyard apply`: what the best setting changes of domains, if it is a gain.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub plan: Option<PathBuf>,
    /// File for every setting that was tried, a row each, with a column for each thing that was varied.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// File for a page with plots, for a browser.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub page: Option<PathBuf>,
    /// Everything, however long that is; without it, what fits a screen.
    #[arg(long)]
    pub all: bool,
    /// For programs: all of it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What is watched: this host, unless something else is named.
#[derive(Args, Clone, Debug)]
pub struct Watched {
    /// Watch a simulation of this scenario, recording or VM description instead.
    #[arg(long, value_name = "INPUT", value_hint = ValueHint::FilePath)]
    pub simulate: Option<PathBuf>,
    /// Policy to simulate, instead of the first of the input.
    #[arg(
        short, long, value_name = "P", requires = "simulate",
        hide_possible_values = true, value_parser = Offering(|| policies::names().collect()),
    )]
    pub policy: Option<String>,
    /// Time from one look to the next, such as 500ms; of a simulation in its own time.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Nanoseconds,
    /// Load nothing into this host's kernel, nor start xentrace: single waits are not seen then.
    #[arg(long, conflicts_with = "simulate")]
    pub no_waits: bool,
    /// Another /proc.
    #[arg(long, value_name = "DIR", default_value = "/proc", hide = true)]
    pub proc: PathBuf,
    /// Another /sys/fs/cgroup.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/cgroup", hide = true)]
    pub groups: PathBuf,
}

pub fn interval(text: &str) -> Result<Nanoseconds, String> {
    match text.parse()? {
        short if short < Nanoseconds::from_ms(10) => Err("at least 10 ms".to_owned()),
        interval => Ok(interval),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if speed > 0.0 && speed <= 1e6 => Ok(speed),
        _ => Err("a number above 0, such as 2 or 0.5".to_owned()),
    }
}

/// Watch who gets the CPUs of this host, of a recording or of a simulation, and who waits.
///
/// Domains are processes with vCPU threads, by the name that QEMU or libvirt gave them. It needs no
/// privilege, and any scheduler may run; as root it sees single waits too. In Xen's dom0 they are Xen's,
/// and root must ask. What a source cannot see is left out and listed under `?`.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "steelyard top                                  this host"
    "steelyard top --replay night.steelyard --speed 10"
    "steelyard top --simulate scenarios/first-look.toml --policy credit2"
    "steelyard top --simple                         bars, once per interval"
    "steelyard top --json --batch 1 | jq '.domains[].gotten_percent'"
    "steelyard top --csv --batch 1 > now.csv"
))]
pub struct Top {
    #[command(flatten)]
    pub watched: Watched,
    /// Watch a recording: of `steelyard record`, or any other file that `steelyard convert` reads.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["simulate", "interval"])]
    pub replay: Option<PathBuf>,
    /// How many times as fast a recording or simulation goes as it went; without it, on a screen 1,
    /// else as fast as it can.
    #[arg(long, value_name = "X", value_parser = speed)]
    pub speed: Option<f64>,
    /// Print so many intervals and end, instead of filling the screen.
    #[arg(short, long, value_name = "N")]
    pub batch: Option<NonZeroU32>,
    /// Print a line of JSON per interval: described in docs/monitor.md.
    #[arg(long, conflicts_with_all = ["simple", "csv"])]
    pub json: bool,
    /// Print a bar per vCPU, and their average, per interval.
    #[arg(long, conflicts_with = "csv")]
    pub simple: bool,
    /// Print every column of every domain and vCPU as CSV.
    #[arg(long)]
    pub csv: bool,
    /// Show who is no virtual machine, too, in recordings that tell of other processes; `o` does so on the screen.
    #[arg(long)]
    pub all: bool,
}

/// Record who gets the CPUs of this host, or of a simulation, until Ctrl-C.
///
/// The recording can be read as far as it was written, whatever ends it: `steelyard top --replay`
/// shows it. Its format is described in docs/monitor.md.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "steelyard record -o night.steelyard --length 8h"
    "steelyard record -o run.steelyard --simulate scenarios/first-look.toml --interval 100ms"
))]
pub struct Record {
    #[command(flatten)]
    pub watched: Watched,
    /// End after this time, such as 10min; without it a simulation ends as its input says.
    #[arg(short, long, value_name = "TIME")]
    pub length: Option<Nanoseconds>,
    /// File to write, or `-` for standard output; replaced if it is there, unless it is read.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Serve who gets the CPUs of this host to Prometheus, until Ctrl-C.
///
/// OpenMetrics over HTTP, under /metrics. Each request is a look at the host; between them it does
/// nothing. The names are in docs/monitor.md.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "steelyard export                              on http://127.0.0.1:9750/metrics"
    "steelyard export --listen '[::]:9750'         for other hosts too"
    "steelyard export --rules > steelyard.rules.yml"
))]
pub struct Export {
    #[command(flatten)]
    pub watched: Watched,
    /// Address and port to listen on; anybody who reaches it can read it.
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9750")]
    pub listen: SocketAddr,
    /// Print the thresholds of top.toml as alerting rules for Prometheus, and end.
    #[arg(long, conflicts_with = "listen")]
    pub rules: bool,
}

/// Let a governor steer this host's VMs, within limits, until Ctrl-C; then all is as it was.
///
/// load-weight gives each VM a weight that follows its workload; app-slice a short slice to who both computes and answers
/// packets. Each interval they are told what every VM used, and what they want is set as `apply` sets it, and printed.
/// The host's own scheduler stays. After a crash `undo` takes all back. docs/govern.md has parameters and a service.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "steelyard govern load-weight --dry-run --length 1min    what it would do"
    "sudo steelyard govern load-weight --set workload=demand"
    "sudo steelyard govern load-weight --least-weight 128 --most-weight 512"
    "sudo steelyard govern app-slice --changes-per-minute 6"
))]
pub struct Govern {
    /// The governor.
    #[arg(value_parser = ["load-weight", "app-slice"])]
    pub governor: String,
    /// Change a parameter of it (`steelyard policies load-weight`); may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// No VM gets less weight; 256 is the usual one.
    #[arg(long, value_name = "WEIGHT", default_value_t = 64, value_parser = weight())]
    pub least_weight: u32,
    /// No VM gets more weight.
    #[arg(long, value_name = "WEIGHT", default_value_t = 1024, value_parser = weight())]
    pub most_weight: u32,
    /// No VM gets a shorter slice; 0.1 to 100 ms.
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = slice)]
    pub least_slice: Nanoseconds,
    /// So many VMs at most are changed within any minute.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=6000))]
    pub changes_per_minute: u32,
    /// Print what it would do, and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// End after this time, such as 10min.
    #[arg(short, long, value_name = "TIME")]
    pub length: Option<Nanoseconds>,
    #[command(flatten)]
    pub host: PlannedHost,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as workload=demand")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn weight() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).range(limits::WEIGHT.least as i64..=limits::WEIGHT.most as i64)
}

fn slice(text: &str) -> Result<Nanoseconds, String> {
    match text.parse()? {
        Nanoseconds(100_000..=100_000_000) => text.parse(),
        _ => Err("0.1 to 100 ms".to_owned()),
    }
}

/// Describe this host for a recording of it: who is there, how each is held, what schedules.
///
/// A recording of perf, Perfetto or xentrace does not tell names of virtual machines, control groups, weights, caps and
/// pins. `compare`, `advise`, `tune` and `convert` find what this writes beside the recording: night.host.toml for
/// night.perf.txt. Describe the host while you record it. By itself it is a scenario to `import`. Of command lines only
/// names are taken. As root it sees all; in Xen's dom0 it asks `xl`. docs/describe.md has the form.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "sudo steelyard describe -o night.host.toml"
    "steelyard compare night.perf.txt               finds night.host.toml by itself"
    "steelyard import night.host.toml -o host.toml  the host as a scenario"
))]
pub struct Describe {
    /// File to write instead of standard output; replaced if it is there.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Another /proc.
    #[arg(long, value_name = "DIR", default_value = "/proc", hide = true)]
    pub proc: PathBuf,
    /// Another /sys/fs/cgroup.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/cgroup", hide = true)]
    pub groups: PathBuf,
    /// Another /sys.
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    pub sys: PathBuf,
}

/// The host that a plan is for: this one.
#[derive(Args, Clone, Debug)]
pub struct PlannedHost {
    /// Another /proc.
    #[arg(long, value_name = "DIR", default_value = "/proc", hide = true)]
    pub proc: PathBuf,
    /// Another /sys/fs/cgroup.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/cgroup", hide = true)]
    pub groups: PathBuf,
    /// Another /run.
    #[arg(long, value_name = "DIR", default_value = "/run", hide = true)]
    pub run: PathBuf,
    /// Another directory of the journal.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/steelyard", hide = true)]
    pub state: PathBuf,
}

/// Change weights, caps, slices and pins of this host's VMs as a plan says; `undo` takes it back.
///
/// The host's own scheduler stays. Weights and caps are those of control groups, or libvirt's where it manages the
/// VM, slices and pins those of vCPU threads; in Xen's dom0 `xl` sets them. All is checked before anything is
/// changed; if a change fails, all before it are taken back. The plan is described in docs/apply.md.
#[derive(Args, Debug)]
#[command(
    after_help = examples!(
        "steelyard apply plan.toml --dry-run     the commands that do the same"
        "sudo steelyard apply plan.toml"
        "sudo steelyard undo"
    ),
    after_long_help = format!("{}\n\n{EXIT_CODES}", examples!(
        "steelyard apply plan.toml --dry-run     the commands that do the same"
        "sudo steelyard apply plan.toml"
        "sudo steelyard undo"
    )),
)]
pub struct Apply {
    /// Plan (.toml): domains by name, with what is wanted of each.
    #[arg(value_hint = ValueHint::FilePath)]
    pub plan: PathBuf,
    /// Print the commands that do the same, and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub host: PlannedHost,
}

/// Take back what `apply` changed, exactly.
///
/// What it was before stands in a journal (/var/lib/steelyard/journal), so that a crash in the midst of `apply` can
/// be taken back too. What somebody else has changed since is left, and said.
#[derive(Args, Debug)]
#[command(after_help = examples!(
    "sudo steelyard undo"
    "sudo steelyard undo --keep      what others changed since stays, for good"
))]
pub struct Undo {
    /// Take back what somebody else has changed since, too.
    #[arg(long, conflicts_with = "keep")]
    pub force: bool,
    /// Leave what somebody else has changed since, and forget it.
    #[arg(long)]
    pub keep: bool,
    #[command(flatten)]
    pub host: PlannedHost,
}

/// Run published experiments and show which of their claims hold.
///
/// Every variant of an experiment runs with every seed. Claims are about the median over seeds. A
/// claim that is known not to hold is shown with the reason that was found. The same seeds give the
/// same bytes, whatever the number of threads.
#[derive(Args, Debug)]
#[command(
    after_help = examples!(
        "steelyard reproduce"
        "steelyard reproduce mcredit2 app-slice --seeds 3"
        "steelyard reproduce all --out reproduction"
    ),
    after_long_help = format!("{}\n\n{EXIT_CODES}\n  {UNEXPECTED}  a claim is not in the state that its experiment expects",
        examples!(
            "steelyard reproduce"
            "steelyard reproduce mcredit2 app-slice --seeds 3"
            "steelyard reproduce all --out reproduction"
            "steelyard reproduce all --json | jq '.experiments[].claims[] | select(.state != \"holds\").says'"
        )
    ),
)]
pub struct Reproduce {
    /// Names of experiments, or `all`, which is also meant where none is named.
    #[arg(value_name = "NAME", hide_possible_values = true, value_parser = Offering(reproduce::names))]
    pub names: Vec<String>,
    /// Number of seeds to run each variant with.
    #[arg(short, long, value_name = "N", default_value = SEEDS.to_string(), value_parser = seeds())]
    pub seeds: NonZeroU32,
    /// Change what is run, wherever it suits: a parameter of a policy, or a setting of a scenario.
    ///
    /// Whether the claims hold is shown; that they do is not expected then.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run only what claims are about: no figures, no matrix.
    #[arg(long, conflicts_with = "out")]
    pub claims: bool,
    /// Directory for report.html and results.json, matrix.svg and tables.md.
    ///
    /// It is made if it is not there; files of these names are replaced.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print results.json instead of the tables.
    #[arg(long)]
    pub json: bool,
    /// Runs at a time, at most 1024; without it one per CPU. It changes no result.
    #[arg(short = 'j', long, value_name = "N", value_parser = threads())]
    pub threads: Option<NonZeroUsize>,
}
