// SPDX-License-Identifier: GPL-2.0-only
//! Compiles the scheduler to BPF and generates its Rust face, where the feature asks for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "bpf")]
    bpf::build();
}

#[cfg(feature = "bpf")]
mod bpf {
    use std::env;
    use std::path::PathBuf;

    /// Names of the compiler, best first; `CLANG` overrides them.
    const CLANGS: [&str; 6] = ["clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang"];

    /// Every operation has the parameters that the kernel gives it, used or not. Where the sources lie
    /// is not to be seen in what they give.
    const ARGUMENTS: &[&str] = &[
        "-I../../policy",
        "-mcpu=v3",
        // Policies' state is words in one struct and a struct of their own in another, as everywhere else.
        "-fno-strict-aliasing",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-ffile-compilation-dir=.",
    ];

    pub fn build() {
        println!("cargo:rerun-if-changed=bpf");
        println!("cargo:rerun-if-changed=tests/verifier");
        println!("cargo:rerun-if-changed=../../policy");
        println!("cargo:rerun-if-env-changed=CLANG");
        let faults: &[&str] = if cfg!(feature = "faults") { &["-DSTEELYARD_FAULTS"] } else { &[] };
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
        for name in ["steelyard", "observer"] {
            let source = format!("bpf/{name}.bpf.c");
            libbpf_cargo::SkeletonBuilder::new()
                .source(&source)
                .clang(clang())
                .clang_args(ARGUMENTS.iter().chain(faults))
                .build_and_generate(out.join(format!("{name}.skel.rs")))
                .unwrap_or_else(|error| panic!("cannot compile {source}: {error:#}"));
        }
        // For a test.
        let source = "tests/verifier/calls.bpf.c";
        libbpf_cargo::SkeletonBuilder::new()
            .source(source)
            .obj(out.join("calls.bpf.o"))
            .clang(clang())
            .clang_args(ARGUMENTS)
            .build()
            .unwrap_or_else(|error| panic!("cannot compile {source}: {error:#}"));
    }

    fn clang() -> String {
        env::var("CLANG").unwrap_or_else(|_| {
            let in_path = |name: &str| {
                env::var_os("PATH")
                    .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(name).exists()))
            };
            CLANGS.into_iter().find(|name| in_path(name)).unwrap_or("clang").to_owned()
        })
    }
}
