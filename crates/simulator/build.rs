// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the engine with the simulated host's mechanism, for each discipline by itself: what any other would do there
//! is left out. And learns from it what `src/engine.rs` must agree with.

use std::path::Path;
use std::{env, fs};

fn main() {
    steelyard_core_build::core("src/others.c").compile("steelyard_simulator_others");
    let disciplines = steelyard_core_build::facts("src/facts.c")["SY_DISCIPLINES"];
    let names: Vec<_> =
        (0..disciplines).map(|number| format!("simulated_calls_{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        steelyard_core_build::core("src/host.c")
            .define("SIMULATED_DISCIPLINE", number.to_string().as_str())
            .define("SIMULATED_CALLS", name.as_str())
            .compile(&format!("steelyard_{name}"));
    }
    let statics: String = names.iter().map(|name| format!("static {name}: Calls;")).collect();
    let list: String = names.iter().map(|name| format!("&{name},")).collect();
    let text = format!(
        "unsafe extern \"C\" {{ {statics} }}\n\
         // SAFETY: C has them, and never changes them.\n\
         static CALLS: [&Calls; {disciplines}] = unsafe {{ [{list}] }};\n"
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("calls.rs"), text).expect("cargo's directory can be written");
}
