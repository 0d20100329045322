//! The part of a page that a program writes, between two marks. People write the rest.

use anyhow::{Context, Result};
use std::path::Path;

/// A generated part of a page.
pub struct Part {
    /// The page, below the root.
    pub page: &'static str,
    /// The lines before and behind the part.
    pub marks: [&'static str; 2],
}

impl Part {
    /// Writes the part's text into the page.
    ///
    /// # Errors
    ///
    /// If the page cannot be read or written, or lacks the marks.
    pub fn write(&self, root: &Path, text: &str) -> Result<()> {
        let page = std::fs::read_to_string(root.join(self.page)).context(self.page)?;
        let new =
            put(&page, self.marks, text).with_context(|| format!("{} lacks {:?}", self.page, self.marks))?;
        if new != page {
            std::fs::write(root.join(self.page), new).context(self.page)?;
        }
        Ok(())
    }

    /// Returns true if the page has this text in its part.
    ///
    /// # Errors
    ///
    /// If the page cannot be read.
    pub fn is(&self, root: &Path, text: &str) -> Result<bool> {
        let page = std::fs::read_to_string(root.join(self.page)).context(self.page)?;
        Ok(put(&page, self.marks, text).is_some_and(|new| new == page))
    }
}

/// Returns a page with another text between two marks. `None` if the page lacks them.
pub fn put(page: &str, marks: [&str; 2], text: &str) -> Option<String> {
    let [begin, end] = marks;
    let (before, rest) = page.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_changes() {
        let folder = tempfile::tempdir().unwrap();
        let part = Part { page: "page.md", marks: ["<!-- begin -->", "<!-- end -->"] };
        let page = folder.path().join("page.md");
        assert!(part.write(folder.path(), "new\n").is_err());
        std::fs::write(&page, "no marks\n").unwrap();
        assert!(part.write(folder.path(), "new\n").is_err());
        assert!(!part.is(folder.path(), "new\n").unwrap());
        std::fs::write(&page, "before\n<!-- begin -->\nold\n<!-- end -->\nafter\n").unwrap();
        assert!(!part.is(folder.path(), "new\n").unwrap());
        part.write(folder.path(), "new\n").unwrap();
        assert!(part.is(folder.path(), "new\n").unwrap());
        let text = std::fs::read_to_string(&page).unwrap();
        assert_eq!(text, "before\n<!-- begin -->\n\nnew\n\n<!-- end -->\nafter\n");
    }
}
