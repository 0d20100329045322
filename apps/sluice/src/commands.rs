//! The commands of the operational mode: from a line's words to the code for the command.

use crate::configuration::{configure, drain, one_shot};
use crate::connection::session::Session;
use crate::lifecycle::{status, stop};
use crate::observe::{bundle, monitor, rtstat};
use crate::output::{Call, Failure, Output, describe};
use crate::packages::commands as of_components;
use crate::show::{
    configuration, forwarding, interfaces, memory, metrics, platform, policy, routes, targets,
};
use crate::{doctor, shipped};
use sluice_cli::Read;
use sluice_xrl::XrlError;

/// Runs a command and returns the exit status. Reports an answer from components without a running manager, or the
/// reason why there was no answer.
pub async fn run(session: &Session, read: &Read<'_>, out: &mut Output) -> Result<u8, Failure> {
    describe(out, &read.command.id);
    let done = carry_out(session, read, out).await;
    let Some(unmanaged) = session.unmanaged() else { return done };
    // A manager may run by the time of the next command.
    session.forget();
    match done {
        Err(failure)
            if failure.status == Failure::NOT_CONNECTED || failure.code == XrlError::BadKey.name() =>
        {
            Err(Failure::not_connected(unmanaged))
        }
        done => {
            if !session.flags.wanted.quiet {
                crate::output::complain(&format!("sluice: {unmanaged}"));
            }
            done
        }
    }
}

async fn carry_out(session: &Session, read: &Read<'_>, out: &mut Output) -> Result<u8, Failure> {
    let values = &read.values;
    match read.command.id.as_str() {
        "show interfaces" => interfaces::show(session, out).await?,
        "show forwarding" => forwarding::show(session, out).await?,
        "show routes" => routes::show(session, routes::RoutesArgs::from_values(values)?, out).await?,
        "show summary" => routes::summary(session, out).await?,
        "show memory" => memory::show(session, out).await?,
        "show targets" => targets::show(session, out).await?,
        "show configuration" => configuration::show(session, values, out).await?,
        "show configuration effective" => configuration::effective(session, values, out).await?,
        "show policy" => policy::show(session, values.text("name"), out).await?,
        "show revisions" => platform::revisions(session, out).await?,
        "show packages" => platform::packages(session, values.text("name"), out).await?,
        "show metrics" => metrics::show(session, values.text("component"), out).await?,
        "show version" => platform::version(session, out).await?,
        "show events" => monitor::show(session, values, out).await?,
        "rtstat" => rtstat::follow(session, values, out).await?,
        "monitor" => monitor::follow(session, values, out).await?,
        "stop" => stop::stop(session, out).await?,
        "reload" => configure::reload(session, values, out).await?,
        "flush" => stop::flush(session, out)?,
        "status" => return status::run(session, out).await,
        "configure" => return one_shot::configure(session, values, out).await,
        "commit" => return one_shot::commit(session, values, out).await,
        "rollback" => return one_shot::rollback(session, values, out).await,
        "drain" => drain::run(session, true, values, out).await?,
        "undrain" => drain::run(session, false, values, out).await?,
        "compare" => return one_shot::compare_with_running(session, values, out).await,
        "doctor" => return doctor::run(session, out).await,
        "support-bundle" => bundle::run(session, values, out).await?,
        id => {
            if let Some((class, own)) = shipped::component_of(id) {
                let router = session.router().await?;
                let (target, timeout) = (session.component(class), session.flags.timeout);
                (own.run)(id, Call { router, target, timeout, values }, out).await?;
                return Ok(0);
            }
            let known = session.packages().await;
            let command = known.commands.iter().find(|c| c.command.id == id);
            let command = command.ok_or_else(|| Failure::usage(format!("`{id}` has no meaning here")))?;
            of_components::run(session, command, values, out).await?;
        }
    }
    Ok(0)
}
