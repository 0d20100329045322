//! The steps of the campaigns, and their commands.

use super::campaigns::{CAMPAIGNS, Campaign, Kind};
use super::scan::LongTest;
use std::time::Duration;

/// A step of a campaign: a command with a result of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The campaign's name.
    pub campaign: &'static str,
    /// The name, unique in the campaign.
    pub name: String,
    /// The longest time of the command.
    pub bound: Duration,
    /// Commands that build what the step runs. Equal builds of several steps run once.
    pub builds: Vec<Vec<String>>,
    /// The command.
    pub command: Vec<String>,
    /// The evidence of success.
    pub evidence: Evidence,
}

/// The evidence that a step passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The command succeeds.
    Exit,
    /// The command succeeds, libtest counts a single passed test, and the test records nothing.
    Test,
    /// The command prints the count of caught bugs. The share is judged over all steps.
    Caught,
}

/// The parts of the workspace that campaigns run.
pub struct Parts<'a> {
    /// The long tests.
    pub tests: &'a [LongTest],
    /// The names of the fuzz targets.
    pub targets: &'a [String],
    /// The lists of seeded bugs, by their judges, with their lengths.
    pub bugs: &'a [(String, usize)],
    /// True if the machine has libFuzzer.
    pub is_guided: bool,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// Returns the steps of all campaigns, in their order.
pub fn all(parts: &Parts<'_>) -> Vec<Step> {
    CAMPAIGNS.iter().flat_map(|campaign| of(campaign, parts)).collect()
}

fn of(campaign: &'static Campaign, parts: &Parts<'_>) -> Vec<Step> {
    let release = words("cargo build --release --locked -p sluice");
    let step = |name: String, builds: Vec<Vec<String>>, command: Vec<String>, evidence| Step {
        campaign: campaign.name,
        name,
        bound: campaign.bound,
        builds,
        command,
        evidence,
    };
    match campaign.kind {
        Kind::Routers | Kind::Optimized => {
            let tests = parts.tests.iter().filter(|test| test.campaign == campaign.name);
            let is_optimized = campaign.kind == Kind::Optimized;
            let profile = if is_optimized { " --release" } else { "" };
            let steps = tests.map(|test| {
                let mut cargo = words(&format!("cargo test{profile} --locked -p {}", test.package));
                cargo.extend(test.program.words().iter().map(ToString::to_string));
                let build = [cargo.clone(), words("--no-run")].concat();
                let mut builds = vec![build];
                if !is_optimized {
                    builds.insert(0, release.clone());
                }
                let filter = words(&format!("-- --exact {} --nocapture --test-threads 1", test.path));
                step(test.name(), builds, [cargo, filter].concat(), Evidence::Test)
            });
            steps.collect()
        }
        Kind::Simulator { seeds, step: count } => {
            let firsts = (1..=seeds).step_by(usize::try_from(count).unwrap_or(usize::MAX));
            let steps = firsts.map(|first| {
                let last = seeds.min(first + count - 1);
                let command = format!(
                    "target/release/sluice simulate --campaign --seed {first} --seeds {} --save target/long/simulated.json",
                    last + 1 - first
                );
                step(format!("seeds {first} to {last}"), vec![release.clone()], words(&command), Evidence::Exit)
            });
            steps.collect()
        }
        Kind::Fuzz { seconds } => {
            let steps = parts.targets.iter().map(|target| {
                let (build, command) = if parts.is_guided {
                    let chore = "cargo xtask fuzz-guided";
                    (format!("{chore} --build"), format!("{chore} --seconds {seconds} --target {target}"))
                } else {
                    let run = format!("cargo run --locked -p sluice-fuzz -- {target} {seconds}");
                    ("cargo build --locked -p sluice-fuzz".to_owned(), run)
                };
                step(target.clone(), vec![words(&build)], words(&command), Evidence::Exit)
            });
            steps.collect()
        }
        Kind::Mutate { step: count } => {
            let parts = parts.bugs.iter().flat_map(|(judge, length)| {
                (1..=*length)
                    .step_by(count)
                    .map(move |first| (judge, first, *length.min(&(first + count - 1))))
            });
            let steps = parts.map(|(judge, first, last)| {
                let command = format!("cargo xtask mutate --judge {judge} --numbers {first}-{last}");
                step(format!("{judge} {first} to {last}"), Vec::new(), words(&command), Evidence::Caught)
            });
            steps.collect()
        }
    }
}

impl Step {
    /// A step without a command.
    #[cfg(test)]
    pub fn named(campaign: &'static str, name: &str) -> Self {
        let (name, bound) = (name.to_owned(), Duration::ZERO);
        Step { campaign, name, bound, builds: Vec::new(), command: Vec::new(), evidence: Evidence::Exit }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::Program;
    use super::*;

    fn test(campaign: &str, package: &str) -> LongTest {
        LongTest {
            campaign: campaign.into(),
            package: package.into(),
            program: Program::Integration("all".into()),
            path: "module::one".into(),
            place: "x.rs:1".into(),
        }
    }

    fn steps(campaign: &str, parts: &Parts<'_>) -> Vec<(String, String, usize)> {
        let all = all(parts).into_iter().filter(|step| step.campaign == campaign);
        all.map(|step| (step.name, step.command.join(" "), step.builds.len())).collect()
    }

    #[test]
    fn each_kind_has_its_commands() {
        let tests = [test("exchange lan", "sluice"), test("many elements", "sluice-cluster")];
        let targets = ["a-target".to_owned()];
        let bugs = [("rib".to_owned(), 128), ("fea".to_owned(), 3)];
        let mut parts = Parts { tests: &tests, targets: &targets, bugs: &bugs, is_guided: true };
        let filter = "--test all -- --exact module::one --nocapture --test-threads 1";
        let test = |name: &str, words: &str, builds| {
            (format!("{name}::module::one"), format!("cargo test {words} -p {name} {filter}"), builds)
        };
        assert_eq!(steps("exchange lan", &parts), [test("sluice", "--locked", 2)]);
        assert_eq!(steps("many elements", &parts), [test("sluice-cluster", "--release --locked", 1)]);
        let networks = steps("simulated networks", &parts);
        assert_eq!((networks.len(), networks[1].0.as_str()), (8, "seeds 251 to 500"));
        assert!(networks[1].1.contains("--seed 251 --seeds 250"), "{}", networks[1].1);
        let names = |steps: Vec<(String, String, usize)>| steps.into_iter().map(|s| s.0).collect::<Vec<_>>();
        let expected = ["rib 1 to 50", "rib 51 to 100", "rib 101 to 128", "fea 1 to 3"];
        assert_eq!(names(steps("seeded bugs", &parts)), expected);
        assert_eq!(steps("fuzz", &parts)[0].1, "cargo xtask fuzz-guided --seconds 600 --target a-target");
        parts.is_guided = false;
        assert_eq!(steps("fuzz", &parts)[0].1, "cargo run --locked -p sluice-fuzz -- a-target 600");
    }
}
