//! Routes that stay after NOTIFICATIONs (RFC 8538).

use super::*;

/// The capabilities of a neighbor that keeps routes after NOTIFICATIONs (RFC 8538).
fn graceful() -> Vec<Capability> {
    let mut capabilities = capabilities::<Ipv4Prefix>(true);
    capabilities.pop();
    capabilities.push(restart_with::<Ipv4Prefix>(GRACEFUL, true));
    capabilities
}

/// A router that has two routes of a neighbor with graceful notifications.
fn graceful_router(change: impl FnOnce(&mut Config)) -> Dut<Ipv4Prefix> {
    let mut dut = router::<Ipv4Prefix>(change);
    dut.connect(0, graceful());
    announce(&mut dut, &[1, 2]);
    end_of_rib(&mut dut);
    assert_eq!(advertised(&dut), [1, 2]);
    dut.peers[0].wire.clear();
    dut
}

fn notify(dut: &mut Dut<Ipv4Prefix>, notification: &Notification) {
    let mut octets = vec![];
    notification.put(&mut octets);
    dut.say(0, &octets);
    dut.settle();
}

/// Returns the NOTIFICATION that the first neighbor got.
fn notified(dut: &Dut<Ipv4Prefix>) -> Notification {
    let is_notification = |message: &&Vec<u8>| message[18] == MessageType::Notification as u8;
    let message = dut.peers[0].wire.iter().find(is_notification).unwrap();
    Notification::decode(&message[HEADER_LEN..]).unwrap()
}

#[test]
fn routes_stay_after_a_notification_where_both_sides_keep_them() {
    for received in [Notification::new(code::UPDATE, 1), Notification::new(code::CEASE, cease::CONFIGURATION)]
    {
        let mut dut = graceful_router(|_| {});
        notify(&mut dut, &received);
        assert_eq!(advertised(&dut), [1, 2]);
        dut.up_speaking(0, graceful());
        announce(&mut dut, &[2]);
        end_of_rib(&mut dut);
        assert_eq!(advertised(&dut), [2]);
    }
    // The hold timer expires.
    let mut dut = graceful_router(|_| {});
    let later = dut.now + Duration::from_secs(300);
    while notified_or_none(&dut).is_none() && dut.now < later {
        dut.now = dut.deadline().unwrap().max(dut.now);
        dut.fire();
        dut.settle();
    }
    assert_eq!(notified(&dut).code, code::HOLD_TIMER);
    assert!((0..8).any(|number| dut.rib.contains_key(&Ipv4Prefix::nth(number))), "routes stay in the RIB");
    // The neighbor offers to keep routes, and this router does not.
    for is_helper in [false, true] {
        let mut dut = graceful_router(|config| {
            let restart = &mut config.neighbors[0].graceful_restart;
            (restart.helper, restart.notifications) = (is_helper, !is_helper);
        });
        notify(&mut dut, &Notification::new(code::UPDATE, 1));
        assert_eq!(advertised(&dut), [0; 0]);
    }
}

fn notified_or_none(dut: &Dut<Ipv4Prefix>) -> Option<()> {
    dut.peers[0].wire.iter().any(|message| message[18] == MessageType::Notification as u8).then_some(())
}

#[test]
fn routes_go_after_a_hard_reset() {
    let mut dut = graceful_router(|_| {});
    notify(&mut dut, &Notification::cease(cease::SHUTDOWN, "bye").for_graceful_peer());
    assert_eq!(advertised(&dut), [0; 0]);

    // A lasting end by this router is one, with the reason inside; its routes go too.
    let mut dut = graceful_router(|_| {});
    let mut config = dut.config();
    config.neighbors[0].enabled = false;
    dut.input(Input::Configure(config));
    dut.settle();
    assert!(notified(&dut).is_hard_reset());
    assert_eq!(notified(&dut).reason().unwrap().subcode, cease::SHUTDOWN);
    assert_eq!(advertised(&dut), [0; 0]);

    // Another hold time needs a new session, which is no lasting end.
    let mut dut = graceful_router(|_| {});
    let mut config = dut.config();
    config.neighbors[0].hold_time = 30;
    dut.input(Input::Configure(config));
    dut.settle();
    assert_eq!((notified(&dut).code, notified(&dut).subcode), (code::CEASE, cease::CONFIGURATION));
    assert_eq!(advertised(&dut), [1, 2]);
}

/// RFC 8538, section 4.1: routes that have not come again stay over another loss, but not for longer than the stale time.
#[test]
fn a_session_lost_again_and_again_keeps_routes_for_the_stale_time() {
    let mut dut = graceful_router(|_| {});
    down(&mut dut);
    let first = dut.now;
    dut.up_speaking(0, graceful());
    announce(&mut dut, &[3]);
    down(&mut dut);
    assert_eq!(advertised(&dut), [1, 2, 3]);
    dut.up_speaking(0, graceful());
    announce(&mut dut, &[2, 4]);
    pass(&mut dut, first + Duration::from_secs(STALE_TIME - 10));
    dut.hand_over();
    assert_eq!(advertised(&dut), [1, 2, 3, 4]);
    pass(&mut dut, first + Duration::from_secs(STALE_TIME + 1));
    // Those of the session before have been away for too long to stay once more.
    down(&mut dut);
    assert_eq!(advertised(&dut), [2, 4]);
    dut.up_speaking(0, graceful());
    end_of_rib(&mut dut);
    assert_eq!(advertised(&dut), [0; 0]);
}
