//! The connection to the running router, and answers used repeatedly: the router's schema, its packages, live values
//! for completion.

use crate::components;
use crate::connection::connect;
use crate::connection::flags::Flags;
use crate::connection::unmanaged::Unmanaged;
use crate::output::Failure;
use crate::shipped;
use sluice_base::component_name;
use sluice_cli::package::PackageCommand;
use sluice_cli::render::at;
use sluice_cli::{Grammar, Live};
use sluice_config::Node;
use sluice_xrl::idl::manager::v1 as manager;
use sluice_xrl::{XrlEndpoint, text};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The longest wait of completion for the router.
const COMPLETION_DEADLINE: Duration = Duration::from_secs(1);
/// The lifetime of live values.
const FRESH: Duration = Duration::from_secs(2);

/// The pause in completion requests to a router that did not answer.
const SILENCE: Duration = Duration::from_secs(5);

/// A revision counted from the running configuration.
pub fn back(back: u32) -> manager::Which {
    manager::Which { which: Some(manager::which::Which::Back(back)) }
}

/// A package of the router.
pub struct Packages {
    /// Its commands.
    pub commands: Vec<PackageCommand>,
    /// Packages whose commands are not taken, and why.
    pub refused: Vec<(String, String)>,
}

/// The router's state for the prompt.
#[derive(Default)]
pub struct Present {
    /// The configured name.
    pub host_name: Option<String>,
    /// The time at which a commit that waits for its confirmation is rolled back; 0 if none waits.
    pub unconfirmed_until_unix_ms: u64,
}

/// A connection made on first use, and the answers received so far.
pub struct Session {
    /// The flags of the command line.
    pub flags: Flags,
    router: RefCell<Option<XrlEndpoint>>,
    schema: RefCell<Option<Rc<Vec<Node>>>>,
    packages: RefCell<Option<Rc<Packages>>>,
    /// The number of the router's schema at the last look; another number is another schema, with other packages.
    schema_number: Cell<u64>,
    live: RefCell<HashMap<Live, (Instant, Vec<String>)>>,
    /// The time when the router did not answer last.
    silent: Cell<Option<Instant>>,
    /// The components without a manager, if the router was found without a manager.
    unmanaged: RefCell<Option<Unmanaged>>,
}

impl Session {
    /// Makes a session without connections.
    pub fn new(flags: Flags) -> Self {
        Session {
            flags,
            router: RefCell::default(),
            schema: RefCell::default(),
            packages: RefCell::default(),
            schema_number: Cell::new(0),
            live: RefCell::default(),
            silent: Cell::new(None),
            unmanaged: RefCell::default(),
        }
    }

    /// Returns the name of the component to ask: the instance named by the flags, except for the manager, which has no
    /// instances.
    pub fn component(&self, class: &str) -> String {
        let instance = self.flags.instance.as_deref().filter(|_| class != "manager");
        component_name(class, instance)
    }

    /// The way to the components.
    pub async fn router(&self) -> Result<XrlEndpoint, Failure> {
        let known = self.router.borrow().clone();
        if let Some(router) = known {
            return Ok(router);
        }
        let unmanaged = Unmanaged::find(&self.flags.run_dir);
        let router = match &unmanaged {
            Some(unmanaged) if !unmanaged.can_answer() => {
                return Err(Failure::not_connected(unmanaged.text()));
            }
            Some(unmanaged) => unmanaged.router(),
            None => connect::connect(&self.flags.run_dir, self.flags.timeout).await?,
        };
        self.unmanaged.replace(unmanaged);
        let router = match self.flags.element {
            Some(element) => components::at_element(&router, element, self.flags.timeout),
            None => router,
        };
        self.router.replace(Some(router.clone()));
        Ok(router)
    }

    /// Returns the text about a dead manager, if the router was found without a manager.
    pub fn unmanaged(&self) -> Option<String> {
        self.unmanaged.borrow().as_ref().map(Unmanaged::text)
    }

    /// Returns the connection to the components, unless asked in vain a moment ago: completion must not wait.
    async fn quick_router(&self) -> Option<XrlEndpoint> {
        if self.silent.get().is_some_and(|since| since.elapsed() < SILENCE) {
            return None;
        }
        let router = self.router().await.ok();
        self.silent.set(router.is_none().then(Instant::now));
        router
    }

    /// Forgets answers of the router, which may have been restarted.
    pub fn forget(&self) {
        self.router.take();
        self.unmanaged.take();
        self.schema.take();
        self.packages.take();
        self.live.take();
    }

    /// The manager's configuration service.
    pub async fn configuration(&self) -> Result<manager::ConfigurationClient, Failure> {
        let router = self.router().await?;
        Ok(manager::ConfigurationClient::new(&router, "manager").with_deadline(self.flags.timeout))
    }

    /// Returns the schema of the running router.
    pub async fn schema(&self) -> Result<Rc<Vec<Node>>, Failure> {
        let known = self.schema.borrow().clone();
        if let Some(schema) = known {
            return Ok(schema);
        }
        let reply = self.configuration().await?.get_schema(manager::GetSchemaRequest {}).await?;
        let schema: Vec<Node> = serde_json::from_str(&reply.json)
            .map_err(|e| Failure::failed(format!("the router's schema is not understood: {e}")))?;
        let schema = Rc::new(schema);
        self.schema.replace(Some(Rc::clone(&schema)));
        Ok(schema)
    }

    /// Returns the commands of packages: of the executable, and of the router if the router answers.
    pub async fn packages(&self) -> Rc<Packages> {
        let known = self.packages.borrow().clone();
        if let Some(packages) = known {
            return packages;
        }
        let mut packages = Packages { commands: shipped::builtin(), refused: Vec::new() };
        let reply = match self.quick_router().await {
            Some(router) => {
                let client = manager::ConfigurationClient::new(&router, "manager");
                client
                    .with_deadline(COMPLETION_DEADLINE)
                    .get_packages(manager::GetPackagesRequest {})
                    .await
                    .ok()
            }
            None => None,
        };
        let answered = reply.is_some();
        for package in
            reply.unwrap_or_default().packages.iter().filter(|p| !p.builtin && p.refused.is_empty())
        {
            match sluice_cli::package::parse(&package.commands) {
                Ok(commands) => packages.add(&package.name, commands),
                Err(e) => packages.refused.push((package.name.clone(), e.to_string())),
            }
        }
        let packages = Rc::new(packages);
        if answered {
            self.packages.replace(Some(Rc::clone(&packages)));
        }
        packages
    }

    /// Returns the commands of the operational mode.
    pub async fn grammar(&self) -> Grammar {
        let mut grammar = Grammar { commands: shipped::in_code() };
        grammar.commands.extend(self.packages().await.commands.iter().map(|p| p.command.clone()));
        grammar
    }

    /// Returns the router's name and the deadline of a commit that waits; without an immediate answer neither. Forgets the schema and
    /// the packages if others came since.
    pub async fn present(&self) -> Present {
        self.asked_present().await.unwrap_or_default()
    }

    async fn asked_present(&self) -> Option<Present> {
        let router = self.quick_router().await?;
        let client = manager::ConfigurationClient::new(&router, "manager").with_deadline(COMPLETION_DEADLINE);
        let request = manager::ShowRequest {
            which: Some(back(0)),
            path: vec!["system".into()],
            form: manager::Form::Json.into(),
            offset: 0,
        };
        let reply = client.show(request).await.ok()?;
        if self.schema_number.replace(reply.schema) != reply.schema {
            self.schema.take();
            self.packages.take();
        }
        let shown: serde_json::Value = serde_json::from_str(&reply.text).ok()?;
        Some(Present {
            host_name: shown["host-name"].as_str().map(Into::into),
            unconfirmed_until_unix_ms: reply.unconfirmed_until_unix_ms,
        })
    }

    /// Returns live values; empty if the router does not answer at once.
    pub async fn live(&self, live: &Live) -> Vec<String> {
        if let Some((asked, values)) = self.live.borrow().get(live)
            && asked.elapsed() < FRESH
        {
            return values.clone();
        }
        let mut call = live.call.splitn(3, '/');
        let (Some(target), Some(interface), Some(method)) = (call.next(), call.next(), call.next()) else {
            return Vec::new();
        };
        let Some(router) = self.quick_router().await else { return Vec::new() };
        let target = self.component(target);
        let asking = text::read_plain(&router, (&target, interface, method), &[], COMPLETION_DEADLINE);
        let reply = tokio::time::timeout(COMPLETION_DEADLINE, asking).await;
        let Ok(Ok(reply)) = reply else { return Vec::new() };
        let mut values: Vec<String> = at(&reply, &live.path)
            .into_iter()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_string))
            .collect();
        values.sort();
        values.dedup();
        self.live.borrow_mut().insert(live.clone(), (Instant::now(), values.clone()));
        values
    }
}

impl Packages {
    /// Takes a package's commands, except commands with words already in use.
    fn add(&mut self, package: &str, commands: Vec<PackageCommand>) {
        let taken: Vec<String> = shipped::in_code().iter().map(|c| c.name()).collect();
        for command in commands {
            let name = command.command.name();
            if taken.contains(&name) || self.commands.iter().any(|c| c.command.name() == name) {
                self.refused.push((package.into(), format!("`{name}` is there already")));
            } else {
                self.commands.push(command);
            }
        }
    }
}
