// SPDX-License-Identifier: GPL-2.0-only
//! From a plan and a host to single changes, each of one knob. What the host cannot do is refused here, where
//! nothing has been changed.

use std::fs;

use serde::{Deserialize, Serialize};
use steelyard_boundary::text::told;
use steelyard_monitor::{LinuxSource, XenSource};
use steelyard_recording::weight::{Scale, USUAL};
use steelyard_recording::{Domain, qemu};
use steelyard_scenario::{Diagnostic, did_you_mean};
use steelyard_simulator::units::{CpuSet, Nanoseconds};

use crate::Host;
use crate::error::ApplyError;
use crate::group::{self, FileName, Group};
use crate::knob::{Knob, KnobError};
use crate::plan::{Plan, Wanted};
use crate::thread::{Thread, usual_slice_ns};
use crate::{libvirt, xen};

/// A knob is turned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The domain that it is turned for.
    pub domain: String,
    /// What is turned.
    pub knob: Knob,
    /// Its value before.
    pub old: String,
    /// And after.
    pub new: String,
}

/// A change that a plan asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does, in words.
    pub about: String,
    /// The change; of nothing, if all is so already.
    pub change: Change,
}

/// The kernel's and libvirt's least quota.
const LEAST_QUOTA_US: u64 = 1000;

/// What a plan changes on a host, in order.
///
/// # Errors
/// What the host cannot do, and where the plan asks for it.
pub fn steps(plan: &Plan, host: &Host) -> Result<Vec<Step>, ApplyError> {
    let mut steps = vec![];
    if XenSource::is_here(&host.proc) {
        for (index, wanted) in plan.domains.iter().enumerate() {
            Of { plan, host, index, wanted, steps: &mut steps }.xen()?;
        }
        return Ok(steps);
    }
    let mut source = LinuxSource::new(&host.proc, &host.groups)?;
    source.set_states(false);
    let domains = source.sample()?.structure.domains.clone();
    for (index, wanted) in plan.domains.iter().enumerate() {
        let mut of = Of { plan, host, index, wanted, steps: &mut steps };
        let domain = of.find(&domains)?;
        of.linux(domain)?;
    }
    if source.left_out() > 0 {
        let message = "this host has more vCPUs than can be looked at";
        return Err(Diagnostic::of_file("apply", message).into());
    }
    Ok(steps)
}

/// The pCPUs that are online.
fn online(host: &Host) -> CpuSet {
    let stat = fs::read_to_string(host.proc.join("stat")).unwrap_or_default();
    let numbers = stat.lines().filter_map(|line| line.strip_prefix("cpu")?.split(' ').next());
    numbers.flat_map(str::parse).collect()
}

/// What is wanted of one domain.
struct Of<'a> {
    plan: &'a Plan,
    host: &'a Host,
    index: usize,
    wanted: &'a Wanted,
    steps: &'a mut Vec<Step>,
}

impl Of<'_> {
    fn refused(&self, key: &str, message: impl Into<String>) -> Diagnostic {
        self.plan.error(self.index, key, message)
    }

    fn failed(&self, key: &str, error: &KnobError) -> Diagnostic {
        let name = &self.wanted.name;
        self.refused(key, format!("what `{name}` has cannot be asked for: {error}"))
    }

    /// Adds a change to a value, from what it is now; the value now.
    fn add(&mut self, key: &str, about: String, knob: Knob, new: String) -> Result<(), Diagnostic> {
        let old = self.now(key, &knob)?;
        let domain = self.wanted.name.clone();
        self.steps.push(Step { about, change: Change { domain, knob, old, new } });
        Ok(())
    }

    fn now(&self, key: &str, knob: &Knob) -> Result<String, Diagnostic> {
        let name = &self.wanted.name;
        let now = knob.read(self.host).map_err(|error| self.failed(key, &error))?;
        let now = now.ok_or_else(|| self.refused("name", format!("`{name}` has just ended")))?;
        match knob.is_sound(&now) {
            true => Ok(now),
            false => Err(self.refused(key, format!("it has the value `{now}`, which is unknown"))),
        }
    }

    fn find<'d>(&self, domains: &'d [Domain]) -> Result<&'d Domain, Diagnostic> {
        let name = &self.wanted.name;
        let named: Vec<_> = domains.iter().filter(|domain| domain.name == *name).collect();
        let is_libvirts =
            |domain: &&&Domain| libvirt::manages(&self.host.run, name, domain.id as u32);
        let of_libvirt: Vec<_> = named.iter().filter(is_libvirts).collect();
        match (named.as_slice(), of_libvirt.as_slice()) {
            ([domain], _) => Ok(domain),
            (_, [domain]) => Ok(domain),
            ([], _) => {
                let known = || domains.iter().map(|domain| domain.name.as_str());
                let near = did_you_mean(name, known());
                let message = format!("no VM `{name}` runs on this host{near}");
                Err(self.refused("name", message).with_known(known()))
            }
            (several, _) => {
                let pids: Vec<_> = several.iter().map(|domain| domain.id.to_string()).collect();
                let message = format!("{} processes are called `{name}`", several.len());
                let help = format!("end all but one: processes {}", pids.join(", "));
                Err(self.refused("name", message).with_help(help))
            }
        }
    }

    fn linux(&mut self, domain: &Domain) -> Result<(), Diagnostic> {
        let pid = domain.id as u32;
        let Wanted { name, weight, cap_percent, slice, .. } = self.wanted;
        if libvirt::manages(&self.host.run, name, pid) {
            self.libvirt(domain)?;
        } else {
            if weight.is_some() || cap_percent.is_some() {
                let key = if weight.is_some() { "weight" } else { "cap_percent" };
                let group = Group::of_process(&self.host.proc, &self.host.groups, pid);
                let group = group.map_err(|refusal| self.no_group(key, refusal))?;
                if let Some(weight) = *weight {
                    let file = match group.scale {
                        Scale::Group => FileName::Weight,
                        _ => FileName::Shares,
                    };
                    let (about, number) = self.weight(weight, group.scale, file.word())?;
                    let file = group.file(file).map_err(|refusal| self.no_group(key, refusal))?;
                    self.add(key, about, Knob::Group(file), number)?;
                }
                if let Some(cap) = *cap_percent {
                    self.group_cap(&group, cap)?;
                }
            }
            for (vcpu, pins) in self.pins(domain.vcpus.len())?.into_iter().enumerate() {
                let thread = self.thread("pin", domain, vcpu)?;
                let allowed = group::allowed(&self.host.proc, &self.host.groups, pid, thread.tid);
                let allows =
                    |allowed: &CpuSet| pins.iter().all(|pcpu| allowed.iter().any(|a| a == pcpu));
                if let Some(allowed) = allowed.filter(|allowed| !allows(allowed)) {
                    let message = format!("vCPU {vcpu} cannot be on all of pCPUs {pins}");
                    let help = format!("the cpuset of its control group leaves it {allowed}");
                    return Err(self.refused("pin", message).with_help(help));
                }
                let about = format!("vCPU {vcpu} on pCPUs {pins}");
                self.add("pin", about, Knob::Pins(thread), pins.to_string())?;
            }
        }
        let Some(Nanoseconds(slice_ns)) = *slice else { return Ok(()) };
        let Some(usual_ns) = usual_slice_ns() else {
            let help = "take `slice` out of the plan, or boot Linux 6.12 or newer";
            return Err(self.failed("slice", &KnobError::NoSlices).with_help(help));
        };
        for vcpu in 0..domain.vcpus.len() {
            let thread = self.thread("slice", domain, vcpu)?;
            let about = format!("vCPU {vcpu} with a slice of {}", Nanoseconds(slice_ns));
            let value = if slice_ns == usual_ns { 0 } else { slice_ns };
            self.add("slice", about, Knob::Slice(thread), value.to_string())?;
        }
        Ok(())
    }

    fn no_group(&self, key: &str, (message, help): group::Refusal) -> Diagnostic {
        let name = &self.wanted.name;
        self.refused(key, format!("`{name}` cannot have it: {}", told(&message))).with_help(help)
    }

    fn thread(&self, key: &str, domain: &Domain, vcpu: usize) -> Result<Thread, Diagnostic> {
        let tid = domain.vcpus[vcpu].id as u32;
        let thread = Thread::find(&self.host.proc, domain.id as u32, tid);
        thread
            .ok()
            .flatten()
            .ok_or_else(|| self.refused(key, format!("`{}` has just ended", self.wanted.name)))
    }

    /// The set of each vCPU, if any is wanted.
    fn pins(&self, vcpus: usize) -> Result<Vec<CpuSet>, Diagnostic> {
        let Some(pins) = &self.wanted.pin else { return Ok(vec![]) };
        if pins.len() != 1 && pins.len() != vcpus {
            let message = format!("{} sets of pCPUs for {vcpus} vCPUs", pins.len());
            let help = "one set for all its vCPUs, or one for each";
            return Err(self.refused("pin", message).with_help(help));
        }
        let online = online(self.host);
        let is_online = |pcpu: &u32| online.iter().any(|there| there == *pcpu);
        if let Some(missing) = pins.iter().flat_map(CpuSet::iter).find(|pcpu| !is_online(pcpu)) {
            let message = format!("there is no pCPU {missing} online");
            return Err(self.refused("pin", message).with_help(format!("online: {online}")));
        }
        Ok(pins.iter().cycle().take(vcpus).cloned().collect())
    }

    /// What is done in words, and the number that stands for a weight.
    fn weight(
        &self,
        weight: u32,
        scale: Scale,
        what: &str,
    ) -> Result<(String, String), Diagnostic> {
        let Some(number) = scale.of_weight(weight) else {
            let (least, most) = scale.range();
            let message = format!("no {what} stands for weight {weight}");
            let help = format!("weights from {least} to {most} can be had here");
            return Err(self.refused("weight", message).with_help(help));
        };
        let (usual, ..) = scale.figures();
        // Xen's weights are counted as this project's are.
        if usual == USUAL {
            return Ok((format!("weight {weight}"), number.to_string()));
        }
        let stands_for = match (number * USUAL).is_multiple_of(usual) {
            true if number * USUAL / usual == u64::from(weight) => String::new(),
            _ => format!(", the nearest: it is {:.1}", (number * USUAL) as f64 / usual as f64),
        };
        let usual = format!("{USUAL} being {usual}");
        Ok((format!("weight {weight} is {what} {number}, {usual}{stands_for}"), number.to_string()))
    }

    /// Quota in a period, and what is done in words.
    fn quota(&self, cap: u32, period_us: u64) -> Result<(String, u64), Diagnostic> {
        let hundredths = u64::from(cap) * period_us;
        let quota_us = (hundredths + 50) / 100;
        if quota_us < LEAST_QUOTA_US {
            let message = format!(
                "a cap of {cap} % is {quota_us} us in a period of {period_us} us: less than the {LEAST_QUOTA_US} \
                 us that can be had"
            );
            let help = "give a longer `cap_period`, of up to 1 s, or more of it";
            return Err(self.refused("cap_percent", message).with_help(help));
        }
        let rounded = if hundredths.is_multiple_of(100) { "" } else { ", rounded" };
        Ok((format!("cap {cap} % is {quota_us} us of each {period_us} us{rounded}"), quota_us))
    }

    fn wanted_period_us(&self) -> Option<u64> {
        self.wanted.cap_period.map(|period| period.0 / 1000)
    }

    fn group_cap(&mut self, group: &Group, cap: u32) -> Result<(), Diagnostic> {
        let key = "cap_percent";
        let file = |of: &Of, name| {
            group.file(name).map(Knob::Group).map_err(|refusal| of.no_group(key, refusal))
        };
        let wanted_us = self.wanted_period_us();
        let now_us = |text: &str| text.rsplit(' ').next().and_then(|us| us.parse::<u64>().ok());
        let no_limit = "cap 0 is no limit".to_owned();
        let least_us = group.burst_us();
        let fits = |of: &Of, quota_us: u64| match quota_us >= least_us {
            true => Ok(()),
            false => {
                let message = format!(
                    "its quota would be {quota_us} us, less than its burst of {least_us} us"
                );
                let help = "set the burst of its control group to 0 first";
                Err(of.refused(key, message).with_help(help))
            }
        };
        if group.scale == Scale::Group {
            let max = file(self, FileName::Max)?;
            let period_us = wanted_us.or(now_us(&self.now(key, &max)?)).unwrap_or_default();
            if cap == 0 {
                return self.add(key, no_limit, max, format!("max {period_us}"));
            }
            let (about, quota_us) = self.quota(cap, period_us)?;
            fits(self, quota_us)?;
            return self.add(key, about, max, format!("{quota_us} {period_us}"));
        }
        let (quota, period) = (file(self, FileName::Quota)?, file(self, FileName::Period)?);
        if cap == 0 {
            return self.add(key, no_limit, quota, "-1".to_owned());
        }
        let period_us = wanted_us.or(now_us(&self.now(key, &period)?)).unwrap_or_default();
        let (about, quota_us) = self.quota(cap, period_us)?;
        fits(self, quota_us)?;
        self.add(key, format!("period of the cap: {period_us} us"), period, period_us.to_string())?;
        self.add(key, about, quota, quota_us.to_string())
    }

    fn libvirt(&mut self, domain: &Domain) -> Result<(), Diagnostic> {
        let Wanted { name, weight, cap_percent, .. } = self.wanted;
        if !libvirt::is_name(name) {
            let message = format!("`{name}` is a number, which virsh takes for that of a domain");
            let help = "rename it: virsh domrename";
            return Err(self.refused("name", message).with_help(help));
        }
        let known = libvirt::domain(name).map_err(|error| self.failed("name", &error))?;
        let pid = domain.id as u32;
        let scale = group::scale_of(&self.host.proc, pid).unwrap_or(Scale::Group);
        let weight = weight.map(|weight| self.weight(weight, scale, "cpu_shares")).transpose()?;
        let pins = self.pins(domain.vcpus.len())?;
        let whens: &[_] = if known.persistent { &[false, true] } else { &[false] };
        for &config in whens {
            let when = if config { "from its next start on" } else { "now" };
            let knob = |parameter| {
                let (name, uuid) = (name.clone(), known.uuid.clone());
                Knob::Libvirt(libvirt::Setting { name, uuid, parameter, config })
            };
            if let Some((about, number)) = &weight {
                let about = format!("{about}; {when}");
                self.add("weight", about, knob(libvirt::Parameter::CpuShares), number.clone())?;
            }
            if let Some(cap) = *cap_percent {
                self.libvirt_cap(cap, when, &knob)?;
            }
            for (vcpu, pins) in domain.vcpus.iter().zip(&pins) {
                let Some(vcpu) = qemu::vcpu_number(&vcpu.name) else { continue };
                let about = format!("vCPU {vcpu} on pCPUs {pins}; {when}");
                let knob = knob(libvirt::Parameter::Pin(vcpu));
                self.add("pin", about, knob, pins.to_string())?;
            }
        }
        Ok(())
    }

    fn libvirt_cap(
        &mut self,
        cap: u32,
        when: &str,
        knob: &dyn Fn(libvirt::Parameter) -> Knob,
    ) -> Result<(), Diagnostic> {
        let key = "cap_percent";
        let (quota, period) =
            (knob(libvirt::Parameter::GlobalQuota), knob(libvirt::Parameter::GlobalPeriod));
        if cap == 0 {
            // Where nothing is said there is no limit.
            let now = self.now(key, &quota)?;
            let new = if now.is_empty() { now } else { "-1".to_owned() };
            return self.add(key, format!("cap 0 is no limit; {when}"), quota, new);
        }
        let now = self.now(key, &period)?;
        let now = if now.is_empty() { libvirt::USUAL_PERIOD_US.to_owned() } else { now };
        let period_us = self.wanted_period_us().or(now.parse().ok()).unwrap_or_default();
        let (about, quota_us) = self.quota(cap, period_us)?;
        if self.wanted.cap_period.is_some() {
            let about = format!("period of the cap: {period_us} us; {when}");
            self.add(key, about, period, period_us.to_string())?;
        }
        self.add(key, format!("{about}; {when}"), quota, quota_us.to_string())
    }

    fn xen(&mut self) -> Result<(), Diagnostic> {
        let Wanted { name, weight, cap_percent, cap_period, slice, pin } = self.wanted;
        for (key, there) in [("slice", slice.is_some()), ("cap_period", cap_period.is_some())] {
            if there {
                let message = format!("Xen's schedulers have no `{key}` of a domain");
                let help = "take it out of the plan; `xl` sets those of a whole pool";
                return Err(self.refused(key, message).with_help(help));
            }
        }
        if !libvirt::is_name(name) {
            let message = format!("`{name}` is a number, which xl takes for that of a domain");
            return Err(self.refused("name", message).with_help("rename it: xl rename"));
        }
        let id = xen::number(name).map_err(|error| self.failed("name", &error))?;
        let Some(id) = id else {
            let help = "`xl list` shows those that there are";
            return Err(self.refused("name", format!("there is no `{name}`")).with_help(help));
        };
        let knob = |parameter| Knob::Xen(xen::Setting { name: name.clone(), id, parameter });
        if weight.is_some() || cap_percent.is_some() {
            let key = if weight.is_some() { "weight" } else { "cap_percent" };
            let scheduler = xen::scheduler(name).map_err(|error| {
                self.failed(key, &error).with_help("only credit2 and credit have weights and caps")
            })?;
            if let Some(weight) = *weight {
                let (about, number) = self.weight(weight, Scale::Xen, "weight")?;
                self.add("weight", about, knob(xen::Parameter::Weight(scheduler)), number)?;
            }
            if let Some(cap) = *cap_percent {
                let about =
                    if cap == 0 { "cap 0 is no limit".to_owned() } else { format!("cap {cap} %") };
                let knob = knob(xen::Parameter::Cap(scheduler));
                self.add("cap_percent", about, knob, cap.to_string())?;
            }
        }
        if pin.is_none() {
            return Ok(());
        }
        let vcpus = xen::vcpus(name).map_err(|error| self.failed("pin", &error))?;
        for (vcpu, pins) in vcpus.iter().zip(self.pins(vcpus.len())?) {
            let about = format!("vCPU {vcpu} on pCPUs {pins}");
            self.add("pin", about, knob(xen::Parameter::Pin(*vcpu)), pins.to_string())?;
        }
        Ok(())
    }
}
