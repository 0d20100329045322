//! Listings of BGP's routes, read page by page in the order of prefixes.

use crate::idl::bgp::v1 as pb;
use sluice_console::Failure;

/// Routes of the first page: few, so that the first line comes at once.
const FIRST_PAGE: u32 = 100;
const PAGE: u32 = 1000;

/// A listing of routes. One page is held at a time.
pub struct Pages<'a> {
    client: &'a pb::BgpClient,
    /// The request for the next page; `None` behind the last one.
    request: Option<pb::GetRoutesRequest>,
}

impl<'a> Pages<'a> {
    /// Begins a listing of the routes of `request`.
    pub fn new(client: &'a pb::BgpClient, request: pb::GetRoutesRequest) -> Self {
        Pages { client, request: Some(pb::GetRoutesRequest { page: 0, limit: FIRST_PAGE, ..request }) }
    }

    /// Returns the next page, of at most `most` routes; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// BGP does not answer, or refuses the request.
    pub async fn next(&mut self, most: u64) -> Result<Option<Vec<pb::Route>>, Failure> {
        let Some(mut request) = self.request.take() else { return Ok(None) };
        request.limit = request.limit.min(u32::try_from(most).unwrap_or(u32::MAX));
        let reply = self.client.get_routes(request.clone()).await?;
        self.request = (reply.next_page > 0).then_some(pb::GetRoutesRequest {
            page: reply.next_page,
            limit: PAGE,
            ..request
        });
        Ok(Some(reply.routes))
    }
}
