//! The routes of traces, on one thread.

use super::machine::Speaker;
use super::messages::Output;
use crate::injection::{Injected, InjectionError, Injector};
use crate::intake::Reading;
use crate::speaker::config::InjectionConfig;
use crate::speaker::control::Input;
use alloc::boxed::Box;
use core::net::IpAddr;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Speaker {
    /// Begins an injection of the routes of `wanted` in a trace, or configures a known injection.
    pub fn begin_injection(
        &mut self,
        now: Instant,
        config: InjectionConfig,
        wanted: IpAddr,
        out: &mut Outbox<Output>,
    ) {
        let address = config.neighbor.address;
        self.control(now, Input::Inject(Box::new(config)), out);
        if let Some(injector) = self.injectors.remove(&address) {
            let reading = injector.into_reading();
            self.injectors.insert(address, Injector::new(reading, wanted));
        }
        self.offer(out);
    }

    /// Takes the session of a trace.
    pub(crate) fn injecting(&mut self, address: IpAddr, reading: Reading) {
        match self.injectors.get_mut(&address) {
            Some(injector) => injector.open(reading),
            None => drop(self.injectors.insert(address, Injector::new(reading, address))),
        }
    }

    /// Takes octets of a trace.
    ///
    /// # Errors
    /// The trace cannot be read on.
    pub fn inject(
        &mut self,
        now: Instant,
        address: IpAddr,
        mut octets: &[u8],
        out: &mut Outbox<Output>,
    ) -> Result<(), InjectionError> {
        while let Some(injector) = self.injectors.get_mut(&address) {
            let session = (injector.reading().peer, injector.reading().life);
            let taken = injector.take(&mut octets, &mut self.batches);
            let read = injector.reading().reader.counters;
            self.apply_in(now, session, out);
            self.control(now, Input::Injected(address, read), out);
            match taken {
                Ok(Injected::Full) => {}
                Ok(Injected::SessionOver) => self.control(now, Input::RestartInjection(address), out),
                Ok(Injected::Nothing) => break,
                Err(error) => {
                    self.offer(out);
                    return Err(error);
                }
            }
        }
        self.offer(out);
        Ok(())
    }

    /// Ends an injection. Returns the error of a trace that ends in the middle of a record, or could not be read.
    ///
    /// # Errors
    /// See above.
    pub fn end_injection(
        &mut self,
        now: Instant,
        address: IpAddr,
        out: &mut Outbox<Output>,
    ) -> Result<(), InjectionError> {
        let finished = self.injectors.remove(&address).map_or(Ok(()), |injector| injector.finish());
        self.control(now, Input::EndInjection(address), out);
        self.offer(out);
        finished
    }
}
