//! Variables of protocols: properties of routes for conditions and actions.

/// The variables of a protocol's routes. The number of a variable is its place in the slice.
pub type Vocabulary = &'static [Variable];

/// The number of a variable in its [`Vocabulary`].
pub type VariableId = u8;

/// The name of the variable with the neighbor's address, in vocabularies of protocols with neighbors.
pub const NEIGHBOR: &str = "neighbor";
/// The name of the variable with the neighbor's AS.
pub const NEIGHBOR_AS: &str = "neighbor-as";

/// A property of routes with a name in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variable {
    /// The name, as in `from local-preference 100`.
    pub name: &'static str,
    /// The values.
    pub values: Type,
    /// True if actions may change the variable.
    pub is_writable: bool,
    /// The source of the variable.
    pub reads: Reads,
}

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Numbers from 0 to the largest one; a route may have none.
    Number(u32),
    /// Names; each stands for the number of its place.
    Name(&'static [&'static str]),
    /// Texts, such as the name of a peer group.
    Text,
    /// Addresses.
    Address,
}

/// The input of a condition. Conditions on the attributes have one answer for all routes with the same
/// attributes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reads {
    /// The neighbor, or no input: the neighbor's properties are constants of a policy bound to the neighbor.
    Neighbor,
    /// The attributes.
    Attributes,
    /// The prefix.
    Prefix,
}

/// Returns the number and the variable of a name.
pub fn find(vocabulary: Vocabulary, name: &str) -> Option<(VariableId, &'static Variable)> {
    let place = vocabulary.iter().position(|variable| variable.name == name)?;
    Some((place as VariableId, &vocabulary[place]))
}

impl Type {
    /// Returns the largest number; `None` for texts and addresses.
    pub fn largest(self) -> Option<u32> {
        match self {
            Type::Number(most) => Some(most),
            Type::Name(names) => Some(names.len().saturating_sub(1) as u32),
            Type::Text | Type::Address => None,
        }
    }
}
