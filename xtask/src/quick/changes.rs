//! Changed files, as git lists them.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Returns the commit to compare with: the given revision, or the merge base of HEAD with origin/main or main, or HEAD.
pub fn base(root: &Path, since: Option<&str>) -> Result<String> {
    if let Some(revision) = since {
        let commit = git(root, &["rev-parse", "--verify", &format!("{revision}^{{commit}}")])?;
        return Ok(commit.trim().to_owned());
    }
    for branch in ["origin/main", "main"] {
        if let Ok(commit) = git(root, &["merge-base", "HEAD", branch]) {
            return Ok(commit.trim().to_owned());
        }
    }
    Ok("HEAD".to_owned())
}

/// Returns the files that differ from a commit, with uncommitted and untracked files.
pub fn files(root: &Path, base: &str) -> Result<Vec<String>> {
    let tracked = git(root, &["diff", "--name-only", "--no-renames", "-z", base, "--"])?;
    let untracked = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let mut files: Vec<String> = tracked
        .split('\0')
        .chain(untracked.split('\0'))
        .filter(|file| !file.is_empty())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new("git").current_dir(root).args(arguments).output().context("git does not start")?;
    ensure!(
        output.status.success(),
        "git {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &["init", "-q", "-b", "main"]).unwrap();
        for name in ["a", "b"] {
            std::fs::write(root.join(name), "1\n").unwrap();
        }
        git(root, &["add", "."]).unwrap();
        commit(root);
        folder
    }

    fn commit(root: &Path) {
        let who = ["-c", "user.name=n", "-c", "user.email=e"];
        git(root, &[&who[..], &["commit", "-q", "-a", "-m", "m"]].concat()).unwrap();
    }

    #[test]
    fn committed_uncommitted_and_untracked_files_differ() {
        let folder = repository();
        let root = folder.path();
        git(root, &["checkout", "-q", "-b", "work"]).unwrap();
        std::fs::write(root.join("a"), "2\n").unwrap();
        commit(root);
        std::fs::write(root.join("b"), "2\n").unwrap();
        std::fs::write(root.join("c d"), "1\n").unwrap();
        let base = base(root, None).unwrap();
        assert_eq!(files(root, &base).unwrap(), ["a", "b", "c d"]);
        assert_eq!(files(root, "HEAD").unwrap(), ["b", "c d"]);
    }

    #[test]
    fn a_given_revision_must_exist() {
        let folder = repository();
        assert!(base(folder.path(), Some("main")).is_ok());
        assert!(base(folder.path(), Some("nowhere")).is_err());
        git(folder.path(), &["branch", "-m", "other"]).unwrap();
        assert_eq!(base(folder.path(), None).unwrap(), "HEAD");
    }
}
