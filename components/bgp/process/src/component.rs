//! BGP as a component: services, configuration, live upgrade, end.

use crate::error::ConfigError;
use crate::handover::parts;
use crate::rib::{client, presence};
use crate::transport::connection::Connection;
use crate::{BgpProcess, Served, config, idl, transport, validation};
use sluice_bgp::speaker::control::Input;
use sluice_bgp::speaker::{Config, Settings};
use sluice_process::part::Planned;
use sluice_process::{Component, EffectKind, HandOverError, Prepared, RibChange, Sink, Source, StatePart};
use sluice_xrl::Service;
use sluice_xrl::idl::fea::v1::interface_observer_service;
use sluice_xrl::idl::rib::v1 as pb;
use std::rc::Rc;

impl Component for BgpProcess {
    const CLASS: &'static str = "bgp";

    const PARTS: &'static [StatePart] = parts::ALL;

    const STATE: u32 = 17;

    type Settings = Settings;

    type Error = ConfigError;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        vec![
            idl::bgp::v1::bgp_service(Rc::new(Served(Rc::clone(self)))),
            interface_observer_service(Rc::new(Served(Rc::clone(self)))),
            pb::interest_holder_service(Rc::new(Served(Rc::clone(self)))),
            pb::origin_owner_service(Rc::new(Served(Rc::clone(self)))),
            pb::presence_holder_service(Rc::new(Served(Rc::clone(self)))),
            pb::route_subscriber_service(Rc::new(Served(Rc::clone(self)))),
            idl::rpki::v1::vrp_subscriber_service(Rc::new(Served(Rc::clone(self)))),
        ]
    }

    async fn registered(self: Rc<Self>, instance: String) {
        let me = Rc::clone(&self);
        let changed = move |change| match change {
            RibChange::Registered => {
                me.rib.rib_started();
                me.presence.rib_started();
                me.learn_sessions_of_before();
                me.input(Input::RibRestarted);
                me.rib.announced();
            }
            RibChange::Died => {
                me.rib.rib_died();
                me.presence.rib_died();
            }
        };
        let (origin, router) = (Rc::clone(&self.origin), self.frame.router.clone());
        let (redistribution, me) = (Rc::clone(&self.redistribution), Rc::clone(&self));
        self.activate();
        let tasks = [
            tokio::task::spawn_local(origin.keep_registered(router.clone(), instance.clone(), changed)),
            tokio::task::spawn_local(redistribution.keep(router, instance.clone(), move |removed| {
                me.redistribute(removed);
            })),
            tokio::task::spawn_local(client::ask(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(client::remember(Rc::clone(&self))),
            tokio::task::spawn_local(presence::ask(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(validation::follow(Rc::clone(&self), instance.clone())),
            tokio::task::spawn_local(client::pump(Rc::clone(&self))),
            tokio::task::spawn_local(client::refresh(Rc::clone(&self))),
            tokio::task::spawn_local(Rc::clone(&self).follow_fea(instance)),
        ];
        self.tasks.replace(tasks);
    }

    async fn hand_over(self: Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        self.hand_over_to(to).await
    }

    async fn resume(self: Rc<Self>, instance: Option<String>) {
        self.go_on().await;
        if let Some(instance) = instance {
            self.registered(instance).await;
        }
    }

    async fn take_over(self: Rc<Self>, settings: Settings, from: &mut Source) -> Result<(), HandOverError> {
        self.take_over_from(&settings, from).await
    }

    fn degraded(&self) -> Vec<String> {
        let problem = |ipv4: bool| {
            let family = if ipv4 { "IPv4" } else { "IPv6" };
            Some(format!("neighbors cannot connect over {family}: {}", self.listening.problem(ipv4)?))
        };
        let listening = [true, false].into_iter().filter_map(problem);
        listening
            .chain(self.origin.problem())
            .chain(self.redistribution.problem())
            .chain(self.presence.problem())
            .chain(self.mrt.problems())
            .chain(self.bmp.problems(&self.interfaces.borrow()))
            .collect()
    }

    async fn survey(self: Rc<Self>) {
        self.count_prefixes().await;
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Settings>, ConfigError> {
        let settings = config::settings(planned.whole())?;
        if let Some(itself) =
            self.read(|control| settings.itself(&control.config(), &self.interfaces.borrow()))
        {
            itself.map_or(Ok(()), Err)?;
        }
        let effects = if self.is_other(&settings) {
            vec![(EffectKind::ProcessRestart, vec![self.frame.name.clone()])]
        } else {
            self.effects(&settings)
        };
        Ok(Prepared::touching(settings, effects))
    }

    async fn apply(self: Rc<Self>, settings: Settings) -> Result<(), ConfigError> {
        if self.is_other(&settings) {
            return Err(ConfigError::OtherRouter);
        }
        match self.core() {
            None => self.start_core(&settings, self.is_restarted(&settings).await)?,
            Some(_) => self.change_threads(config::plan(&settings)).await?,
        }
        self.collect_all();
        self.input(Input::Configure(settings.config()));
        self.set_redistribution(&settings);
        self.set_monitoring(&settings);
        self.start_monitoring();
        self.configure_injections(settings);
        self.rib.announced();
        transport::listeners::refresh(&self).await;
        Ok(())
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        // Unless this is the end the RIB keeps what it has, until the next process sends it more or the grace time is over.
        self.rib.stop();
        if for_good {
            self.origin.unregister().await;
        }
        // Neighbors are sent, and that is written, before the process ends.
        let open: Vec<Rc<Connection>> = self.connections.borrow().values().cloned().collect();
        self.input(Input::Configure(Config::default()));
        for connection in open {
            connection.closed().await;
        }
        self.end_monitoring().await;
    }
}
