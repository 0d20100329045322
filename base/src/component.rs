//! Names of components: the class, and the instance where a class runs several times (`bgp@red`).

pub mod format;

use alloc::format;
use alloc::string::String;

/// The character between class and instance.
const SEPARATOR: char = '@';

/// Returns the name of the component of a class: `bgp`, or `bgp@red` for the instance `red`.
pub fn component_name(class: &str, instance: Option<&str>) -> String {
    match instance {
        None => class.into(),
        Some(instance) => format!("{class}{SEPARATOR}{instance}"),
    }
}

/// Returns the name of the component behind a target of the Finder, from the target's class and instance. A target with a bare number as
/// the instance (`echo-2`) has the name of the class.
pub fn component_of(class: &str, instance: &str) -> String {
    component_name(class, instance_of(instance))
}

/// Returns the class of a component's name.
pub fn class_of(name: &str) -> &str {
    name.split_once(SEPARATOR).map_or(name, |(class, _)| class)
}

/// Returns the instance of a component's name; `None` for a component without an instance.
pub fn instance_of(name: &str) -> Option<&str> {
    name.split_once(SEPARATOR).map(|(_, instance)| instance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_class_and_maybe_an_instance() {
        for (class, instance, name) in [("bgp", None, "bgp"), ("bgp", Some("red"), "bgp@red")] {
            assert_eq!(component_name(class, instance), name);
            assert_eq!((class_of(name), instance_of(name)), (class, instance));
            assert_eq!(component_of(class, name), name);
        }
        assert_eq!(component_of("echo", "echo-2"), "echo");
    }
}
