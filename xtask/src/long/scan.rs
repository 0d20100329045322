//! Finds the long tests: the tests whose first statement is `long!`.

use crate::tidy::walk;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A long test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongTest {
    /// The name of the campaign.
    pub campaign: String,
    /// The package's name.
    pub package: String,
    /// The test program of the package.
    pub program: Program,
    /// The path, as libtest prints it.
    pub path: String,
    /// The source file and the line.
    pub place: String,
}

/// A test program of a package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// The unit tests of the library.
    Library,
    /// The unit tests of the executables.
    Executables,
    /// An integration test.
    Integration(String),
}

impl Program {
    /// Returns cargo's arguments for the program.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Program::Library => vec!["--lib"],
            Program::Executables => vec!["--bins"],
            Program::Integration(name) => vec!["--test", name],
        }
    }
}

impl LongTest {
    /// Returns the name that is unique in the workspace, as `long!` records it.
    pub fn name(&self) -> String {
        format!("{}::{}", self.package, self.path)
    }
}

/// Returns the long tests of the sources, and the broken rules of `long!`.
///
/// # Errors
///
/// If a source file or a manifest cannot be read.
pub fn scan(root: &Path) -> Result<(Vec<LongTest>, Vec<String>)> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort();
    let (mut tests, mut problems) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        // The macro itself, and texts about it.
        if file.starts_with("xtask") || file == Path::new("testkit/src/long.rs") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())?;
        if !text.contains("long!(") {
            continue;
        }
        let Some(package) = package(root, file)? else { continue };
        for found in calls(&text) {
            let place = format!("{}:{}", file.display(), found.line);
            let call = match found.call {
                Ok(call) => call,
                Err(reason) => {
                    problems.push(format!("{place}: {reason}"));
                    continue;
                }
            };
            let Some((program, mut path)) = package.locate(file) else {
                problems.push(format!("{place}: `long!` belongs into `src` or `tests` of a package"));
                continue;
            };
            path.extend(call.modules);
            path.push(call.function);
            tests.push(LongTest {
                campaign: call.campaign,
                package: package.name.clone(),
                program,
                path: path.join("::"),
                place,
            });
        }
    }
    Ok((tests, problems))
}

/// A package of the workspace.
struct Package {
    name: String,
    /// The folder below the root.
    folder: PathBuf,
    has_library: bool,
}

/// Returns the package of a source file.
fn package(root: &Path, file: &Path) -> Result<Option<Package>> {
    for folder in file.ancestors().skip(1) {
        let manifest = root.join(folder).join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
        let manifest: toml::Table =
            text.parse().with_context(|| format!("{}/Cargo.toml", folder.display()))?;
        if let Some(name) = manifest.get("package").and_then(|p| p.get("name")).and_then(|n| n.as_str()) {
            let has_library = root.join(folder).join("src/lib.rs").exists();
            return Ok(Some(Package { name: name.to_owned(), folder: folder.to_owned(), has_library }));
        }
    }
    Ok(None)
}

impl Package {
    /// Returns the test program of a source file, and the file's module path in the program.
    fn locate(&self, file: &Path) -> Option<(Program, Vec<String>)> {
        let below = file.strip_prefix(&self.folder).ok()?.with_extension("");
        let mut names: Vec<String> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let room = names.remove(0);
        if names.last().is_some_and(|last| last == "mod") {
            names.pop();
        }
        match room.as_str() {
            "src" => {
                names.retain(|name| name != "lib" && name != "main");
                let program = if self.has_library { Program::Library } else { Program::Executables };
                Some((program, names))
            }
            "tests" if !names.is_empty() => {
                let program = names.remove(0);
                if names == ["main"] {
                    names.clear();
                }
                Some((Program::Integration(program), names))
            }
            _ => None,
        }
    }
}

/// A call of the macro in a source file.
struct Found {
    line: usize,
    call: Result<Call, &'static str>,
}

struct Call {
    campaign: String,
    function: String,
    /// The modules of the file around the function.
    modules: Vec<String>,
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns the calls of `long!` in a text, apart from those in comments.
fn calls(text: &str) -> Vec<Found> {
    let lines: Vec<&str> = text.lines().collect();
    let is_call = |line: &&str| {
        let code = line.trim_start();
        !code.starts_with("//")
            && code.split_once("long!(").is_some_and(|(before, _)| {
                !before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.contains('"')
            })
    };
    let numbers = (0..lines.len()).filter(|number| is_call(&lines[*number]));
    numbers.map(|number| Found { line: number + 1, call: call(&lines, number) }).collect()
}

/// Reads the call in a line, and the function around the call.
fn call(lines: &[&str], number: usize) -> Result<Call, &'static str> {
    let first = "`long!` is the first statement of a function with `#[test]`";
    let code = lines[number].trim();
    let (before, arguments) = code.split_once("long!(").ok_or(first)?;
    let is_statement =
        ["", "sluice_testkit::"].contains(&before.rsplit_once("= ").map_or(before, |(_, path)| path));
    let campaign = arguments.strip_prefix('"').and_then(|rest| rest.strip_suffix("\");"));
    let campaign =
        campaign.ok_or("`long!` takes the name of the campaign, and nothing follows in the line")?;
    let head = number.checked_sub(1).map(|above| lines[above]).ok_or(first)?;
    let function = head.trim().strip_prefix("fn ").and_then(|rest| rest.split_once('(')).ok_or(first)?.0;
    let attributes = lines[..number - 1].iter().rev().take_while(|line| line.trim().starts_with("#["));
    let is_test = attributes.into_iter().any(|line| line.trim() == "#[test]");
    if !is_statement || !is_test || !head.ends_with('{') {
        return Err(first);
    }
    let (mut modules, mut depth) = (Vec::new(), indentation(head));
    for line in lines[..number].iter().rev().filter(|line| !line.trim().is_empty()) {
        let code = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        let name = code.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {"));
        if let Some(name) = name.filter(|_| indentation(line) < depth) {
            depth = indentation(line);
            modules.insert(0, name.to_owned());
        }
    }
    Ok(Call { campaign: campaign.to_owned(), function: function.to_owned(), modules })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const MANIFEST: &str = "[package]\nname = 'a-package'\n";
    const TEST: &str = "#[test]\nfn one() {\n    let program = sluice_testkit::long!(\"first\");\n}\n";
    const UNIT: &str = "fn code() {}\n\n#[cfg(test)]\nmod tests {\n    mod inner {\n        fn other() {}\n    }\n\n    \
                        /// Takes long.\n    #[test]\n    #[ignore = \"x\"]\n    fn two() -> Result<(), ()> {\n        \
                        long!(\"second\");\n    }\n}\n";

    #[test]
    fn tests_are_found_with_their_programs_and_paths() {
        let folder = written(&[
            ("Cargo.toml", "[workspace]\n"),
            ("a/Cargo.toml", MANIFEST),
            ("a/src/lib.rs", "mod deep;\n"),
            ("a/src/deep/mod.rs", UNIT),
            ("a/tests/flat.rs", TEST),
            ("a/tests/all/main.rs", TEST),
            ("a/tests/all/part.rs", TEST),
            ("a/tests/all/folder/mod.rs", TEST),
            ("a/tests/all/folder/leaf.rs", TEST),
        ]);
        let (tests, problems) = scan(folder.path()).unwrap();
        assert_eq!(problems, Vec::<String>::new());
        let found: Vec<_> = tests.iter().map(|t| (t.program.words().join(" "), t.path.as_str())).collect();
        let expected = [
            ("--lib", "deep::tests::two"),
            ("--test all", "folder::leaf::one"),
            ("--test all", "folder::one"),
            ("--test all", "one"),
            ("--test all", "part::one"),
            ("--test flat", "one"),
        ];
        assert_eq!(found, expected.map(|(words, path)| (words.to_owned(), path)));
        assert_eq!((tests[0].campaign.as_str(), tests[5].campaign.as_str()), ("second", "first"));
        assert_eq!(tests[5].name(), "a-package::one");
        assert_eq!(tests[5].place, "a/tests/flat.rs:3");
    }

    #[test]
    fn a_call_at_another_place_is_a_problem() {
        let reasons = |text: &str| {
            let folder = written(&[("Cargo.toml", MANIFEST), ("tests/x.rs", text)]);
            let (tests, problems) = scan(folder.path()).unwrap();
            assert_eq!(tests, []);
            problems.len()
        };
        assert_eq!(reasons("fn one() {\n    long!(\"first\");\n}\n"), 1, "no test");
        assert_eq!(
            reasons("#[test]\nfn one() {\n    let x = 1;\n    long!(\"first\");\n}\n"),
            1,
            "not first"
        );
        assert_eq!(reasons("#[test]\nfn one() {\n    long!(NAME);\n}\n"), 1, "no literal");
        assert_eq!(reasons("#[test]\nfn one() {\n    f(long!(\"first\"));\n}\n"), 1, "inside an expression");
        assert_eq!(
            reasons("// long!(\"first\")\nfn f() { along!(\"x\"); }\n"),
            0,
            "a comment, a different macro"
        );
    }
}
