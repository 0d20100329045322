//! Writes the server trait and the typed client of one protobuf service.

use std::fmt::Write;

use prost_build::{Comments, Method, Service, ServiceGenerator};
use protox::prost_reflect::prost_types::method_options::IdempotencyLevel;

/// Generates code for every service.
pub(crate) struct Services {
    /// The folder of the descriptors inside `OUT_DIR`.
    pub(crate) folder: String,
}

impl ServiceGenerator for Services {
    fn generate(&mut self, service: Service, buf: &mut String) {
        buf.push_str(&server(&service, &self.folder));
        buf.push_str(&client(&service));
    }
}

fn doc(comments: &Comments, indent: &str, otherwise: &str) -> String {
    if comments.leading.is_empty() {
        return format!("{indent}/// {otherwise}\n");
    }
    comments.leading.iter().flat_map(|c| c.lines()).fold(String::new(), |mut text, line| {
        let line = line.trim_end();
        let space = if line.is_empty() || line.starts_with(' ') { "" } else { " " };
        text.push_str(&format!("{indent}///{space}{line}\n"));
        text
    })
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && after_lower {
            out.push('_');
        }
        after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Returns true for a method with `option idempotency_level = NO_SIDE_EFFECTS`.
fn reads(method: &Method) -> bool {
    method.options.idempotency_level() == IdempotencyLevel::NoSideEffects
}

fn server(service: &Service, folder: &str) -> String {
    let name = &service.name;
    let interface = format!("{}.{}", service.package, service.proto_name);
    let mut out = doc(&service.comments, "", &format!("Serves the interface `{interface}`."));
    let _ = writeln!(out, "#[allow(async_fn_in_trait)]\npub trait {name} {{");
    for m in &service.methods {
        out.push_str(&doc(&m.comments, "    ", &format!("The method `{}`.", m.proto_name)));
        let _ = writeln!(
            out,
            "    async fn {}(&self, ctx: &::sluice_xrl::CallContext, request: {}) -> ::core::result::Result<{}, ::sluice_xrl::XrlError>;",
            m.name, m.input_type, m.output_type
        );
    }
    let _ = writeln!(out, "}}");
    let _ = writeln!(
        out,
        "/// The interface `{interface}` as `target` serves it, to be registered.\n\
         pub fn {}_service<T: {name} + 'static>(target: ::std::rc::Rc<T>) -> ::sluice_xrl::Service {{\n\
         \x20   ::sluice_xrl::Service::new(\"{interface}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"{folder}/{}\")), vec![",
        snake(&service.name),
        crate::DESCRIPTOR_FILE
    );
    for m in &service.methods {
        let _ = writeln!(
            out,
            "        ::sluice_xrl::Method::new(\"{}\", {{ let target = ::std::rc::Rc::clone(&target); \
             move |ctx: ::sluice_xrl::CallContext, request: {}| {{ let target = ::std::rc::Rc::clone(&target); \
             async move {{ target.{}(&ctx, request).await }} }} }}){},",
            m.proto_name,
            m.input_type,
            m.name,
            if reads(m) { ".reading()" } else { "" }
        );
    }
    out.push_str("    ])\n}\n");
    out
}

fn client(service: &Service) -> String {
    let name = &service.name;
    let interface = format!("{}.{}", service.package, service.proto_name);
    let paths: Vec<String> =
        service.methods.iter().map(|m| format!("\"{interface}/{}\"", m.proto_name)).collect();
    let reading: Vec<String> = service
        .methods
        .iter()
        .filter(|m| reads(m))
        .map(|m| format!("\"{interface}/{}\"", m.proto_name))
        .collect();
    let mut out = format!(
        "/// Calls the interface `{interface}` of a target.\n\
         #[derive(Clone)]\n\
         pub struct {name}Client(::sluice_xrl::Client);\n\
         impl {name}Client {{\n\
         \x20   /// The interface's name.\n\
         \x20   pub const INTERFACE: &'static str = \"{interface}\";\n\
         \x20   /// The methods that only read.\n\
         \x20   pub const READING: &'static [&'static str] = &[{}];\n\
         \x20   const METHODS: &'static [&'static str] = &[{}];\n\
         \x20   /// A client for the target `target`: a class (its first live instance answers) or an instance.\n\
         \x20   pub fn new(router: &::sluice_xrl::XrlEndpoint, target: &str) -> Self {{\n\
         \x20       Self(::sluice_xrl::Client::new(router, target, Self::METHODS))\n\
         \x20   }}\n\
         \x20   /// The same client, whose calls fail if no reply comes in `deadline`.\n\
         \x20   #[must_use]\n\
         \x20   pub fn with_deadline(&self, deadline: ::std::time::Duration) -> Self {{ Self(self.0.with_deadline(deadline)) }}\n\
         \x20   /// The same client, using just this family.\n\
         \x20   #[must_use]\n\
         \x20   pub fn via(&self, family: ::sluice_xrl::Family) -> Self {{ Self(self.0.via(family)) }}\n\
         \x20   /// Waits until a call would go out at once: fewer calls than the window are outstanding.\n\
         \x20   pub async fn ready(&self) {{ self.0.ready().await }}\n\
         \x20   /// Writes what was called at once, before anything else that this turn of the loop still has to do.\n\
         \x20   pub fn flush(&self) {{ self.0.flush() }}\n",
        reading.join(", "),
        paths.join(", ")
    );
    for (index, m) in service.methods.iter().enumerate() {
        out.push_str(&client_method(index, m));
    }
    out.push_str("}\n");
    out
}

fn client_method(index: usize, m: &Method) -> String {
    let mut out = doc(&m.comments, "    ", &format!("The method `{}`.", m.proto_name));
    let _ = writeln!(
        out,
        "    pub fn {}(&self, request: {}) -> ::sluice_xrl::Call<{}> {{ self.0.call({index}, request) }}",
        m.name, m.input_type, m.output_type
    );
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_service_functions() {
        for (input, expected) in [("Rib", "rib"), ("FibOwner", "fib_owner"), ("Bgp4Peer", "bgp4_peer")] {
            assert_eq!(super::snake(input), expected);
        }
    }
}
