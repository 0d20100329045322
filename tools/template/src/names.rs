//! The name of a component in the forms that its files need.

use crate::TemplateError;

/// Names with a different meaning for the Finder, the manager or the schema.
const TAKEN: [&str; 6] = ["extensions", "finder", "manager", "operator", "router", "sluice"];

/// The longest name: a class name is also a file name, a YANG identifier and part of crate names.
pub(crate) const LONGEST: usize = 32;

/// A component's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Names {
    /// The name for the Finder and the configuration: `my-proto`.
    class: String,
    /// As part of a crate's name in Rust: `my_proto`.
    krate: String,
    /// As part of a type's name: `MyProto`.
    kind: String,
}

impl Names {
    /// Makes the forms of the name `class`.
    ///
    /// # Errors
    /// The name has other characters, is too long, or means something else.
    pub fn of(class: &str) -> Result<Self, TemplateError> {
        let parts: Vec<&str> = class.split('-').collect();
        let is_word = |part: &&str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        let sound = class.starts_with(|c: char| c.is_ascii_lowercase()) && parts.iter().all(is_word);
        if !sound || class.len() > LONGEST {
            return Err(TemplateError::Name(class.into()));
        }
        if TAKEN.contains(&class) {
            return Err(TemplateError::Taken(class.into()));
        }
        let capital = |part: &&str| part[..1].to_ascii_uppercase() + &part[1..];
        Ok(Names {
            class: class.into(),
            krate: class.replace('-', "_"),
            kind: parts.iter().map(capital).collect(),
        })
    }

    /// Puts the names in their marked places.
    pub fn fill(&self, template: &str) -> String {
        template.replace("@NAME@", &self.class).replace("@CRATE@", &self.krate).replace("@TYPE@", &self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_name() {
        for name in ["", "Rip", "9p", "-a", "a-", "a--b", "a_b", "a/b", "..", "a b", "ä", &"a".repeat(33)] {
            assert!(matches!(Names::of(name), Err(TemplateError::Name(_))), "{name}");
        }
        for name in TAKEN {
            assert!(matches!(Names::of(name), Err(TemplateError::Taken(_))), "{name}");
        }
        assert_eq!(
            Names::of("my-proto").expect("a name").fill("@NAME@ @CRATE@ @TYPE@"),
            "my-proto my_proto MyProto"
        );
    }
}
