//! Listen ranges, as operators ask for them.

use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::not_configured;
use sluice_bgp::speaker::RangeView;
use sluice_xrl::XrlError;

impl BgpProcess {
    /// Returns the listen ranges, in the order of their prefixes.
    pub(crate) fn ranges(&self) -> Result<Vec<pb::ListenRange>, XrlError> {
        let views = self.read(|control| control.ranges()).ok_or_else(not_configured)?;
        Ok(views.into_iter().map(|view| self.range(view)).collect())
    }

    fn range(&self, view: RangeView) -> pb::ListenRange {
        let RangeView { config, neighbors, established, counters } = view;
        let closed = self.listening.problem(config.prefix.addr().is_ipv4());
        let problem = if config.template.enabled {
            closed.or_else(|| self.listening.range_problem(config.prefix)).unwrap_or_default()
        } else {
            "the group is not enabled".into()
        };
        pb::ListenRange {
            prefix: config.prefix.to_string(),
            peer_as: config.peer_as_text(),
            group: config.template.group.unwrap_or_default(),
            limit: config.limit.into(),
            idle_time: config.idle_time.into(),
            neighbors,
            established,
            joined: counters.joined,
            refused_for_limit: counters.refused_for_limit,
            refused_for_rate: counters.refused_for_rate,
            refused_for_as: counters.refused_for_as,
            problem,
        }
    }
}
