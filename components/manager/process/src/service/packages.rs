//! The interface by which packages come and go.

use crate::audit::record::Act;
use crate::packages::PackageChangeError;
use crate::service::Served;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};

/// The kind of a refusal: 1 for what cannot be done, 4 for a package that is not valid.
fn refusal(error: &PackageChangeError) -> XrlError {
    let code = match error {
        PackageChangeError::Files(_)
        | PackageChangeError::Refused { .. }
        | PackageChangeError::Other { .. }
        | PackageChangeError::Configuration { .. } => 4,
        _ => 1,
    };
    XrlError::application(code, error.to_string())
}

impl pb::Packages for Served {
    async fn install(
        &self,
        ctx: &CallContext,
        request: pb::InstallPackageRequest,
    ) -> Result<pb::InstallPackageReply, XrlError> {
        let verb = if request.upgrade { "upgrade" } else { "install" };
        let lines = vec![format!("{verb} {}", request.path)];
        let work = async { self.install_package(request).await.map_err(|error| refusal(&error)) };
        self.audited(ctx, Act::Package, lines, |_| None, work).await
    }

    async fn remove(
        &self,
        ctx: &CallContext,
        request: pb::RemovePackageRequest,
    ) -> Result<pb::RemovePackageReply, XrlError> {
        let lines = vec![format!("remove {}", request.name)];
        let work = async {
            let version = self.remove_package(&request.name).await.map_err(|error| refusal(&error))?;
            Ok(pb::RemovePackageReply { version })
        };
        self.audited(ctx, Act::Package, lines, |_| None, work).await
    }
}
