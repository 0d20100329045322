//! The statement of a redistributed origin.

use alloc::string::String;
use alloc::vec::Vec;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// The name of BGP's own origin at the RIB.
const OWN_ORIGIN: &str = "bgp";

/// An entry of `redistribute`: an origin of routes at the RIB, and the policies for its routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Redistribute {
    /// The origin's name at the RIB.
    #[serde(deserialize_with = "other_origin")]
    pub origin: String,
    /// The names of the policies for the origin's routes, in order.
    #[serde(default)]
    pub policy: Vec<String>,
}

fn other_origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let origin = String::deserialize(deserializer)?;
    if origin == OWN_ORIGIN {
        return Err(D::Error::custom(
            "redistribute bgp: BGP has its own routes already; expected another origin, such as static or connected",
        ));
    }
    Ok(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use serde::de::IntoDeserializer;

    #[test]
    fn the_own_origin_is_refused() {
        let read = |origin: &'static str| {
            other_origin(IntoDeserializer::<serde::de::value::Error>::into_deserializer(origin))
        };
        assert_eq!(read("static").as_deref(), Ok("static"));
        assert!(read("bgp").unwrap_err().to_string().contains("expected another origin"));
    }
}
