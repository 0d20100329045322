//! What a change costs.

use serde::{Deserialize, Serialize};

/// The impact of a leaf's change on a running router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Impact {
    /// No effect outside the router.
    None,
    /// Applied to future input; nothing is interrupted.
    Soft,
    /// Routes that are there already are evaluated again.
    Refilter,
    /// A session or an adjacency drops and comes back.
    Reset,
    /// The component is started anew.
    Restart,
}

impl Impact {
    /// Returns the word for the impact used in modules.
    pub fn word(self) -> &'static str {
        match self {
            Impact::None => "none",
            Impact::Soft => "soft",
            Impact::Refilter => "refilter",
            Impact::Reset => "reset",
            Impact::Restart => "restart",
        }
    }
}

impl std::fmt::Display for Impact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

impl std::str::FromStr for Impact {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let all = [Impact::None, Impact::Soft, Impact::Refilter, Impact::Reset, Impact::Restart];
        all.into_iter().find(|impact| impact.word() == s).ok_or(())
    }
}
