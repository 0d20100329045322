//! Records of neighbors' announcements, for monitoring stations ([`crate::bmp`]) and traces in files ([`crate::mrt`]). Neither is
//! part of a live upgrade.

use crate::BgpProcess;
use sluice_bgp::speaker::Settings;

impl BgpProcess {
    /// Sets the stations and traces, which [`BgpProcess::start_monitoring`] begins.
    pub(crate) fn set_monitoring(&self, settings: &Settings) {
        self.bmp.set(&settings.bmp.station);
        self.mrt.set(settings.mrt);
    }

    /// Begins configured stations and traces, and ends stations and traces without configuration.
    pub(crate) fn start_monitoring(&self) {
        self.bmp.start(&self.me);
        self.mrt.start(&self.me);
    }

    /// Ends stations and traces, and waits until the stations are notified and the files are closed.
    pub(crate) async fn end_monitoring(&self) {
        self.bmp.end().await;
        self.mrt.end().await;
    }
}
