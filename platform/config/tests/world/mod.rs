//! A module with something of everything.

#![allow(dead_code)] // each test takes what it needs

/// The module `example`.
pub const EXAMPLE: &str = r#"module example {
        yang-version 1.1;
        namespace "urn:example";
        prefix ex;
        import sluice-extensions { prefix sluice; }
        import sluice-router { prefix router; }
        grouping timers {
            container timers {
                leaf hold { type uint16; default 90; sluice:impact "soft"; }
            }
        }
        augment "/router:protocols" {
            container example {
                presence "The example runs.";
                sluice:component "example";
                description "An
                    example.";
                leaf local-as { type uint32 { range "1..4294967294"; } mandatory true; sluice:impact "reset"; }
                leaf passive { type boolean; default false; sluice:impact "soft"; }
                leaf mode { type enumeration { enum fast { description "At once."; } enum slow; } sluice:impact "none"; }
                leaf secret { type string { length "1..8"; } sluice:impact "reset"; sluice:secret; }
                leaf limits { type union { type uint8 { range "1..10"; } type enumeration { enum none; } } default "3"; sluice:impact "soft"; }
                leaf-list group { type string; max-elements 3; sluice:impact "soft"; }
                leaf-list order { ordered-by user; type string; sluice:impact "refilter"; }
                list neighbor {
                    key address;
                    leaf address { type string; sluice:impact "reset"; }
                    choice kind {
                        mandatory true;
                        leaf discard { type empty; sluice:impact "soft"; }
                        leaf via { type string; sluice:impact "soft"; }
                    }
                    uses timers;
                }
                list area {
                    key "name level";
                    ordered-by user;
                    leaf name { type string; sluice:impact "soft"; }
                    leaf level { type uint8; sluice:impact "soft"; }
                    container inner { presence "It has an inside."; leaf-list value { type uint64; min-elements 1; sluice:impact "none"; } }
                    choice metric {
                        default fixed;
                        case fixed { leaf cost { type uint8; default 7; sluice:impact "soft"; } }
                        case measured { leaf probe { type string; sluice:impact "soft"; } leaf every { type decimal64 { fraction-digits 2; } default "1.50"; sluice:impact "soft"; } }
                    }
                }
                list key {
                    key name;
                    unique secret;
                    leaf name { type string; sluice:impact "soft"; }
                    leaf secret { type string; sluice:impact "soft"; sluice:secret; }
                    leaf group { type leafref { path "../../group"; } sluice:impact "soft"; }
                    leaf strength { when "../group"; type uint8; default 5; sluice:impact "soft"; }
                    leaf weak { type empty; must "not(../strength > 9)"; sluice:impact "soft"; }
                }
                container stats { config false; leaf packets { type uint64; } }
            }
        }
    }"#;

/// A path's words.
pub fn path(words: &str) -> Vec<String> {
    words.split_whitespace().map(Into::into).collect()
}
