//! A package comes, is replaced, or goes.

use super::PackageChangeError;
use crate::ManagerProcess;
use crate::configure::builtin::{ConfigSource, guarded_component};
use crate::configure::commands;
use crate::configure::model::{Model, Planned};
use crate::configure::trial;
use crate::supervise::replace::handover;
use sluice_base::class_of;
use sluice_config::package::Package;
use sluice_config::{Renderer, Tree};
use sluice_manager::Phase;
use sluice_package::{PackageFileError, Staged, Store, Trust};
use sluice_xrl::idl::manager::v1 as pb;
use std::path::PathBuf;
use std::rc::Rc;
use tracing::{info, warn};

/// The components that have the rights of others.
const HOLDERS_OF_RIGHTS: [&str; 2] = ["fea", "rib"];

/// A configuration that has to stay valid, with the name for errors.
struct Stays {
    which: String,
    tree: Tree,
    /// False for a candidate, which may be incomplete.
    is_whole: bool,
}

/// Returns what a package changes, for the operator: versions, rights and commands.
fn differences(old: &Model, new: &Model, staged: &Staged) -> pb::InstallPackageReply {
    let name = &staged.manifest.name;
    let (more, fewer) = match &staged.manifest.class {
        Some(class) => new.rights(class).compared_with(&old.rights(class)),
        None => (Vec::new(), Vec::new()),
    };
    let is_it = |package: &&Package| package.name == *name;
    let (before, after) = (old.packages.iter().find(is_it), new.packages.iter().find(is_it));
    let known = before.map(commands::in_words).unwrap_or_default();
    let mut commands = after.map(commands::in_words).unwrap_or_default();
    commands.retain(|command| !known.contains(command));
    pb::InstallPackageReply {
        name: name.clone(),
        version: staged.manifest.version.clone(),
        before: before.map(|package| package.version.clone()).unwrap_or_default(),
        signed: staged.signed.words(),
        digest: staged.digest.clone(),
        more,
        fewer,
        asks: false,
        replaced: Vec::new(),
        commands,
    }
}

impl ManagerProcess {
    fn packages_folder(&self) -> Store {
        Store::new(&self.options.source.packages_dir)
    }

    /// Installs a package, or replaces it by another version.
    pub(crate) async fn install_package(
        self: &Rc<Self>,
        request: pb::InstallPackageRequest,
    ) -> Result<pb::InstallPackageReply, PackageChangeError> {
        // Packages come and go one by one. Commits go on until the package is known to do no harm.
        let _changes = self.changing_packages.lock().await;
        let (store, trust_dir) = (self.packages_folder(), self.options.source.trust_dir.clone());
        let path = PathBuf::from(&request.path);
        self.stepping.reached("stage package").await;
        let staged =
            tokio::task::spawn_blocking(move || store.stage(&path, &Trust::read(&trust_dir)?)).await??;
        let done = match self.try_out(&staged).await {
            Ok(()) => {
                let _turn = self.turn.lock().await;
                self.install_staged(&staged, &request).await
            }
            Err(refused) => Err(refused),
        };
        // What is aside now is what nobody needs: the package that was refused, or the one before.
        self.stepping.reached("clean packages").await;
        self.clean_aside().await;
        self.stepping.reached("done").await;
        done
    }

    /// Reads the modules of a package in a process of its own, with those of the packages that are there.
    async fn try_out(&self, staged: &Staged) -> Result<(), PackageChangeError> {
        let Some(executable) = self.options.source.trial.clone() else { return Ok(()) };
        let name = staged.manifest.name.clone();
        let model = self.model();
        let others = model.packages.iter().filter(|package| !package.builtin && package.name != name);
        let mut folders: Vec<PathBuf> = others.map(|package| package.folder.clone()).collect();
        folders.push(staged.folder.clone());
        let tried = tokio::task::spawn_blocking(move || trial::together(&executable, &folders)).await?;
        tried.map_err(|error| PackageChangeError::Refused { name, reason: error.to_string() })
    }

    async fn install_staged(
        self: &Rc<Self>,
        staged: &Staged,
        request: &pb::InstallPackageRequest,
    ) -> Result<pb::InstallPackageReply, PackageChangeError> {
        let name = staged.manifest.name.clone();
        let old = self.model();
        self.check_install(&old, staged, request)?;
        let new = self.planned_model(Plan::Put(name.clone(), staged.folder.clone())).await?;
        let class = staged.manifest.class.clone();
        let mut reply = differences(&old, &new, staged);
        let is_replaced = old.packages.iter().any(|package| package.name == name);
        if is_replaced && !reply.more.is_empty() && request.accepted != staged.digest {
            return Ok(pb::InstallPackageReply { asks: true, ..reply });
        }
        self.stepping.reached("put package").await;
        self.in_store({
            let name = name.clone();
            move |store| store.put(&name)
        })
        .await?;
        self.stepping.reached("use package").await;
        let has_other_rights = !(reply.more.is_empty() && reply.fewer.is_empty());
        self.take_model(new);
        match self.replace_components(class.as_deref(), has_other_rights).await {
            Ok(replaced) => reply.replaced = replaced,
            Err(error) => {
                self.put_version_before_back(&name, class.as_deref(), &old, has_other_rights).await;
                return Err(error);
            }
        }
        let (version, signed) = (&reply.version, &reply.signed);
        info!(
            event = "package.installed",
            package = name,
            version,
            signed,
            "package {name} {version} is installed"
        );
        Ok(reply)
    }

    /// Checks that the package may come: whether there is one already, and who signed the new one.
    fn check_install(
        &self,
        old: &Model,
        staged: &Staged,
        request: &pb::InstallPackageRequest,
    ) -> Result<(), PackageChangeError> {
        let name = staged.manifest.name.clone();
        let before = old.packages.iter().find(|package| package.name == name);
        let is_there = before.is_some() || old.refused.iter().any(|refused| refused.name == name);
        match before {
            Some(package) if package.builtin || !request.upgrade => {
                return Err(PackageChangeError::Installed { name, version: package.version.clone() });
            }
            None if request.upgrade && !is_there => return Err(PackageChangeError::NotInstalled(name)),
            _ => {}
        }
        if !request.unsigned && !staged.signed.is_trusted() {
            let folder = self.options.source.trust_dir.display().to_string();
            return Err(PackageChangeError::Unsigned { name, signed: staged.signed.words(), folder });
        }
        Ok(())
    }

    /// Removes a package and returns its version.
    pub(crate) async fn remove_package(self: &Rc<Self>, name: &str) -> Result<String, PackageChangeError> {
        let _changes = self.changing_packages.lock().await;
        let _turn = self.turn.lock().await;
        let old = self.model();
        let before = old.packages.iter().find(|package| package.name == name && !package.builtin);
        if before.is_none() && !old.refused.iter().any(|refused| refused.name == name) {
            return Err(PackageChangeError::NotInstalled(name.into()));
        }
        if let Some(place) = before.and_then(|package| configured_at(&old, package, &self.running_tree())) {
            return Err(PackageChangeError::Configured { name: name.into(), place });
        }
        let new = self.planned_model(Plan::Without(name.into())).await?;
        let taken = name.to_owned();
        self.in_store(move |store| store.take(&taken)).await?;
        self.take_model(new);
        self.clean_aside().await;
        let version = before.map(|package| package.version.clone()).unwrap_or_default();
        info!(event = "package.removed", package = name, version, "package {name} {version} is removed");
        Ok(version)
    }

    /// Puts the version before back, after the new one was refused by a component.
    async fn put_version_before_back(
        self: &Rc<Self>,
        name: &str,
        class: Option<&str>,
        old: &Rc<Model>,
        has_other_rights: bool,
    ) {
        let package = name.to_owned();
        if let Err(error) = self.in_store(move |store| store.put(&package)).await {
            warn!(
                event = "package.refused",
                package = name,
                "the version before cannot be put back: {error}"
            );
            return;
        }
        self.take_model(Rc::clone(old));
        if has_other_rights {
            self.want();
            for component in self.holders_of_rights(class) {
                if let Err(error) = self.configure_whole(&component).await {
                    warn!(component, %error, "does not take back the rights of the version before");
                }
            }
        }
    }

    async fn in_store(
        &self,
        work: impl FnOnce(&Store) -> Result<(), PackageFileError> + Send + 'static,
    ) -> Result<(), PackageChangeError> {
        let store = self.packages_folder();
        Ok(tokio::task::spawn_blocking(move || work(&store)).await??)
    }

    async fn clean_aside(&self) {
        if let Err(error) = self.in_store(Store::clean).await {
            warn!(%error, "what is not needed any more stays in the folder of packages");
        }
    }

    /// Returns the schema and the rights as they would be after a change of the packages. Made and checked in a thread: the
    /// router goes on meanwhile.
    async fn planned_model(&self, plan: Plan) -> Result<Rc<Model>, PackageChangeError> {
        let old = self.model();
        let source = self.options.source.clone();
        let renderer = old.schema.renderer();
        let running = self.running_tree();
        let candidates = self.editing.changed_candidates().into_iter();
        let mut stay: Vec<Stays> =
            candidates.map(|(which, tree)| Stays { which, tree, is_whole: false }).collect();
        stay.push(Stays { which: "the running configuration".into(), tree: running, is_whole: true });
        let refused: Vec<String> = old.refused.iter().map(|refused| refused.name.clone()).collect();
        let work = move || plan.carry_out(&source, &refused, &renderer, stay);
        Ok(Rc::new(tokio::task::spawn_blocking(work).await??))
    }

    /// Uses another schema, other packages and other rights from now on.
    fn take_model(&self, model: Rc<Model>) {
        self.processes.set_packaged(model.executables());
        self.people.configure(&model, &self.running_tree());
        let _ = self.revisions.borrow_mut().write_schema(model.schema_json()); // only a check before an upgrade asks for it
        self.shown.take();
        self.schema_number.set(self.schema_number.get() + 1);
        self.model.replace(model);
    }

    /// Returns the components that know the rights of a class: the FEA, the RIB, and the guards that run.
    fn holders_of_rights(&self, class: Option<&str>) -> Vec<String> {
        let is_guard = |name: &String| {
            let guarded = guarded_component(name).map(class_of);
            guarded.is_some() && guarded == class && self.phase(name) == Some(Phase::Ready)
        };
        let guards = self.model().classes(&self.running_tree()).into_iter().filter(is_guard);
        HOLDERS_OF_RIGHTS.map(String::from).into_iter().chain(guards).collect()
    }

    /// Replaces the processes of a class that runs: with the rights of the new version, by its program.
    async fn replace_components(
        self: &Rc<Self>,
        class: Option<&str>,
        has_other_rights: bool,
    ) -> Result<Vec<String>, PackageChangeError> {
        let names = self.model().classes(&self.running_tree());
        let names: Vec<String> = names.into_iter().filter(|name| Some(class_of(name)) == class).collect();
        if names.is_empty() {
            return Ok(names);
        }
        if has_other_rights {
            // Guards come and go with the limits; one that stays is sent its limits like the holders of other rights.
            self.want();
            for component in self.holders_of_rights(class) {
                let configured = self.configure_whole(&component).await;
                configured.map_err(|error| PackageChangeError::Rights { component, error })?;
            }
        }
        for name in &names {
            let replaced = handover::hand_over(self, name, None, false).await;
            replaced.map_err(|error| PackageChangeError::Replace { component: name.clone(), error })?;
        }
        Ok(names)
    }
}

/// Returns the statement by which a package's component runs outside of routing instances.
fn configured_at(model: &Model, package: &Package, tree: &Tree) -> Option<String> {
    let class = package.class.as_deref()?;
    let is_configured = model.schema.configured(tree).iter().any(|name| name == class);
    let (_, path) = model.schema.components().find(|(known, _)| *known == class)?;
    is_configured.then(|| path.join(" "))
}

/// A change of the packages, owned: it goes into a thread.
enum Plan {
    /// The package of this name, from the folder in which it was laid aside.
    Put(String, PathBuf),
    /// Without the package of this name.
    Without(String),
}

impl Plan {
    /// Makes the model after the change, and checks that what runs stays what it is.
    fn carry_out(
        &self,
        source: &ConfigSource,
        refused_before: &[String],
        renderer: &Renderer,
        stay: Vec<Stays>,
    ) -> Result<Model, PackageChangeError> {
        let (planned, name) = match self {
            Plan::Put(name, folder) => (Planned::Put(folder), name),
            Plan::Without(name) => (Planned::Without(name), name),
        };
        let model = Model::load_with(source, planned)?;
        for refused in &model.refused {
            let (other, reason) = (refused.name.clone(), refused.reason.clone());
            if other == *name {
                return Err(PackageChangeError::Refused { name: other, reason });
            }
            if !refused_before.contains(&other) {
                return Err(PackageChangeError::Other { other, reason });
            }
        }
        for Stays { which, tree, is_whole } in stay {
            let text = renderer.text(&tree);
            let read = match is_whole {
                true => model.schema.read("configuration", &text),
                false => model.schema.merge(&Tree::empty(), "configuration", &text),
            };
            let reason = match read {
                Ok(read) if read == tree => continue,
                Ok(_) => "it would mean something else".into(),
                Err(error) => error.to_string(),
            };
            return Err(PackageChangeError::Configuration { which, reason });
        }
        Ok(model)
    }
}
