//! Long tests: tests that only `cargo xtask long` runs, as parts of named campaigns.

use std::path::PathBuf;

/// Environment variable with the name of the running campaign. Only `cargo xtask long` sets the variable.
const CAMPAIGN: &str = "SLUICE_CAMPAIGN";
/// Environment variable with the path of the release executable. Only `cargo xtask long` sets the variable.
const RELEASE: &str = "SLUICE_RELEASE";

/// Makes a test a long test of a campaign. The macro is the test's first statement.
///
/// Evaluates to the path of the release executable of `sluice` while `cargo xtask long` runs the campaign. Otherwise the
/// macro records the test as "long, not run", and returns from the test. The campaigns are declared in
/// `xtask/src/long/campaigns.rs`; `cargo xtask tidy` refuses an undeclared one.
///
/// ```no_run
/// fn every_process_is_killed() {
///     let program = sluice_testkit::long!("kills at full table");
///     assert!(program.exists());
/// }
/// ```
#[macro_export]
macro_rules! long {
    ($campaign:literal) => {{
        fn here() {}
        let test = $crate::long::test_name(::core::env!("CARGO_PKG_NAME"), &here);
        match $crate::long::release_executable(&test, $campaign) {
            ::core::option::Option::Some(program) => program,
            ::core::option::Option::None => return $crate::long::NotRun::not_run(),
        }
    }};
}

/// The return type of a long test.
pub trait NotRun {
    /// Returns the value of a test that returns before its first step.
    fn not_run() -> Self;
}

impl NotRun for () {
    fn not_run() -> Self {}
}

impl<T: NotRun, E> NotRun for Result<T, E> {
    fn not_run() -> Self {
        Ok(T::not_run())
    }
}

/// Returns the name of the test that contains the function `inner`: the package, and the path as libtest prints it. The
/// thread's name would not do: with one test thread, libtest runs tests in the main thread.
pub fn test_name<F>(package: &str, inner: &F) -> String {
    let path = std::any::type_name_of_val(inner);
    let path = path.rsplit_once("::").map_or(path, |(test, _)| test);
    let path = path.split_once("::").map_or(path, |(_, below_crate)| below_crate);
    format!("{package}::{path}")
}

/// Returns the path of the release executable if `campaign` is running. Otherwise prints and records `test` as not run.
///
/// # Panics
///
/// If the record is named but cannot be written, or if the campaign is running without an executable.
pub fn release_executable(test: &str, campaign: &str) -> Option<PathBuf> {
    if std::env::var_os(CAMPAIGN).is_some_and(|running| running == campaign) {
        let program = std::env::var_os(RELEASE);
        return Some(program.unwrap_or_else(|| panic!("{RELEASE} names no executable")).into());
    }
    println!("long: {test}");
    crate::skip::record(&format!("long\t{test}\t{campaign}"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::RECORD;
    use std::process::Command;

    #[test]
    fn a_name_is_the_package_and_the_path_of_libtest() {
        fn here() {}
        assert_eq!(
            test_name("a-package", &here),
            "a-package::long::tests::a_name_is_the_package_and_the_path_of_libtest"
        );
    }

    /// Runs a test of this program in a separate process, because variables belong to the whole process. Returns the
    /// record.
    fn record_of(test: &str, variables: &[(&str, &str)]) -> String {
        let record =
            std::env::temp_dir().join(format!("sluice-record-{}-{}", std::process::id(), variables.len()));
        std::fs::write(&record, "").unwrap();
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.args(["--exact", &format!("long::tests::{test}"), "--nocapture", "--test-threads", "1"]);
        own.env_remove(CAMPAIGN).env(RECORD, &record).envs(variables.iter().copied());
        assert!(own.output().unwrap().status.success());
        let text = std::fs::read_to_string(&record).unwrap();
        std::fs::remove_file(&record).unwrap();
        text
    }

    /// Variable with the file into which [`runs_in_a_campaign`] writes the executable's path. Without the variable, the
    /// test does nothing: it would count as a long test that did not run.
    const MARK: &str = "SLUICE_MARK_FILE";

    #[test]
    fn runs_in_a_campaign() -> Result<(), std::io::Error> {
        let Some(mark) = std::env::var_os(MARK) else { return Ok(()) };
        let program = crate::long!("a campaign of this test");
        std::fs::write(mark, program.display().to_string())
    }

    #[test]
    fn a_test_without_its_campaign_is_recorded() {
        let line = "long\tsluice-testkit::long::tests::runs_in_a_campaign\ta campaign of this test\n";
        let mark = (MARK, "/no/such/file");
        assert_eq!(record_of("runs_in_a_campaign", &[mark]), line);
        assert_eq!(record_of("runs_in_a_campaign", &[mark, (CAMPAIGN, "a different one")]), line);
    }

    #[test]
    fn a_test_of_the_running_campaign_gets_the_executable() {
        let mark = std::env::temp_dir().join(format!("sluice-mark-{}", std::process::id()));
        let variables =
            [(CAMPAIGN, "a campaign of this test"), (RELEASE, "/a/b"), (MARK, mark.to_str().unwrap())];
        assert_eq!(record_of("runs_in_a_campaign", &variables), "");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "/a/b");
        std::fs::remove_file(&mark).unwrap();
    }
}
