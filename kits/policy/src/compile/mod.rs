//! From configured policies to programs.

mod actions;
mod conditions;
mod lists;
mod words;

use crate::error::{NameError, PolicyError, shown, unknown};
use crate::limits::{DEEPEST_CALL, MOST_INSTRUCTIONS, MOST_TERMS};
use crate::prefix_list::{ListId, PrefixLists, PrefixRange};
use crate::program::{Constants, Index, Instruction, Place, Program, TermName, Test};
use crate::source::{Policies, Statement, Term, Values};
use crate::vocabulary::Vocabulary;
use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lists::Lists;

/// The programs of all policies that a protocol can be given, by name.
#[derive(Clone, Debug, Default)]
pub struct PolicySet {
    programs: BTreeMap<String, Arc<Program>>,
    /// The names of the policies with parameters, which only policies can use.
    called: BTreeSet<String>,
}

impl PolicySet {
    /// Compiles every policy without parameters, for a protocol's variables. Policies with parameters are compiled into
    /// their callers.
    ///
    /// # Errors
    ///
    /// The first error, with its place. A name that policies use and nobody has defined, a text that is no prefix, expression
    /// or community, and a limit that is exceeded ([`crate::limits`]) are errors.
    pub fn compile(policies: &Policies, vocabulary: Vocabulary) -> Result<Self, PolicyError> {
        PolicySet::compile_used(policies, vocabulary, |_| true)
    }

    /// Checks the named lists, whether or not policies use them.
    ///
    /// # Errors
    ///
    /// The first entry, expression or community that is not valid, with its place.
    pub fn check_lists(policies: &Policies) -> Result<(), PolicyError> {
        Lists::read(policies, &mut PrefixLists::default()).map(drop)
    }

    /// Compiles the policies that a protocol uses, and the others in the protocol's words. Other policies may have conditions and
    /// actions of other protocols, and are left out then.
    ///
    /// # Errors
    ///
    /// As of [`PolicySet::compile`].
    pub fn compile_used(
        policies: &Policies,
        vocabulary: Vocabulary,
        is_used: impl Fn(&str) -> bool,
    ) -> Result<Self, PolicyError> {
        let mut prefix_lists = PrefixLists::default();
        let lists = Lists::read(policies, &mut prefix_lists)?;
        let mut compiled = Vec::new();
        let (called, roots): (Vec<&Statement>, Vec<&Statement>) =
            policies.policy_statement.iter().partition(|statement| !statement.parameter.is_empty());
        let is_wanted =
            |root: &&Statement| is_used(&root.name) || words::is_known(policies, root, vocabulary);
        for statement in roots.into_iter().filter(is_wanted) {
            let mut compiler = Compiler::new(policies, &lists, vocabulary, &mut prefix_lists);
            compiler.statement(statement, BTreeMap::new(), &mut Vec::new())?;
            let source: Arc<str> = compiler.sources.into_iter().collect::<String>().into();
            compiled.push((statement.name.clone(), compiler.code, compiler.constants, source));
        }
        // Every list has its number now.
        let prefix_lists = Arc::new(prefix_lists);
        let mut programs = BTreeMap::new();
        for (name, code, mut constants, source) in compiled {
            constants.prefix_lists = prefix_lists.clone();
            let program =
                Program::of_source(code, constants, vocabulary, source).map_err(|invalid| PolicyError {
                    place: Vec::from(["policy-statement".to_owned(), name.clone()]),
                    message: format!(
                        "instruction {} of the compiled policy is not valid: this is a defect",
                        invalid.0
                    ),
                })?;
            programs.insert(name, Arc::new(program));
        }
        let called = called.into_iter().map(|statement| statement.name.clone()).collect();
        Ok(PolicySet { programs, called })
    }

    /// Returns the program of a policy that the configuration names.
    ///
    /// # Errors
    ///
    /// There is no such policy, or the policy has parameters.
    pub fn find(&self, name: &str) -> Result<&Arc<Program>, NameError> {
        self.programs.get(name).ok_or_else(|| match self.called.contains(name) {
            true => NameError::HasParameters(shown(name).to_owned()),
            false => {
                let known = self.programs.keys().map(|name| &**name);
                NameError::Unknown(unknown("policy-statement", name, known))
            }
        })
    }

    /// Returns the program of a policy.
    pub fn get(&self, name: &str) -> Option<&Arc<Program>> {
        self.programs.get(name)
    }

    /// Iterates over names and programs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Program>)> {
        self.programs.iter().map(|(name, program)| (&**name, program))
    }
}

/// The values of a policy's parameters.
type Arguments = BTreeMap<String, String>;

/// A value that a statement does not take: the value, and the expected values.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ValueError(String);

/// Compiles one policy with the called policies.
struct Compiler<'p> {
    policies: &'p Policies,
    lists: &'p Lists,
    vocabulary: Vocabulary,
    prefix_lists: &'p mut PrefixLists,
    code: Vec<Instruction>,
    constants: Constants,
    /// The arguments of the call that is compiled.
    arguments: Arguments,
    /// The place of the statement that is compiled, for errors.
    place: Vec<String>,
    /// The sources of the program: compiled policies and used lists.
    sources: BTreeSet<String>,
}

impl<'p> Compiler<'p> {
    fn new(
        policies: &'p Policies,
        lists: &'p Lists,
        vocabulary: Vocabulary,
        prefix_lists: &'p mut PrefixLists,
    ) -> Self {
        let (code, constants) = (Vec::new(), Constants::default());
        let (arguments, place, sources) = (Arguments::new(), Vec::new(), BTreeSet::new());
        Compiler { policies, lists, vocabulary, prefix_lists, code, constants, arguments, place, sources }
    }

    fn wrong(&self, error: ValueError) -> PolicyError {
        self.error(error.0)
    }

    fn error(&self, message: String) -> PolicyError {
        PolicyError { place: self.place.clone(), message }
    }

    /// Compiles the terms of a policy. `callers` has the names of the policies around the call.
    fn statement(
        &mut self,
        statement: &Statement,
        arguments: Arguments,
        callers: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let outer = (core::mem::replace(&mut self.arguments, arguments), core::mem::take(&mut self.place));
        callers.push(statement.name.clone());
        self.sources.insert(format!("{statement:?}\n"));
        let mut to_the_end = Vec::new();
        for term in &statement.term {
            self.place = Vec::from([
                "policy-statement".to_owned(),
                statement.name.clone(),
                "term".to_owned(),
                term.name.clone(),
            ]);
            to_the_end.extend(self.term(&statement.name, term, callers)?);
        }
        self.lead_here(&to_the_end);
        callers.pop();
        (self.arguments, self.place) = outer;
        Ok(())
    }

    /// Compiles a term. Returns the jumps that lead to the end of the policy.
    fn term(
        &mut self,
        policy: &str,
        term: &Term,
        callers: &mut Vec<String>,
    ) -> Result<Vec<Place>, PolicyError> {
        let names = TermName { policy: policy.to_owned(), term: term.name.clone() };
        if self.constants.terms.len() >= MOST_TERMS {
            return Err(self.error(format!(
                "a policy has at most {MOST_TERMS} terms, with those of the policies that it calls"
            )));
        }
        let number = self.constants.terms.len() as Index;
        self.constants.terms.push(names);
        self.emit(Instruction::Enter(number))?;
        let mut to_the_next = Vec::new();
        for (name, values) in &term.from {
            let tests = self.within("from", name, |me| me.tests(name, values))?;
            to_the_next.push(self.any_of(&tests)?);
        }
        for (name, values) in &term.except {
            let tests = self.within("except", name, |me| me.tests(name, values))?;
            for test in tests {
                to_the_next.push(self.emit(Instruction::Check { test, expected: false, otherwise: 0 })?);
            }
        }
        let body = self.code.len() as Place;
        self.constants.bodies.push(body);
        let to_the_end = self.actions(number, &term.then, callers)?;
        if self.code.len() as Place == body {
            // A body of its own separates the routes that meet the conditions from the others.
            to_the_next.push(self.emit(Instruction::Jump(0))?);
        }
        self.lead_here(&to_the_next);
        Ok(to_the_end)
    }

    /// Does something about a statement inside a term, whose place errors name.
    fn within<T>(
        &mut self,
        block: &str,
        name: &str,
        act: impl FnOnce(&mut Self) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let depth = self.place.len();
        self.place.extend([block.to_owned(), name.to_owned()]);
        let done = act(self)?;
        self.place.truncate(depth);
        Ok(done)
    }

    /// Emits checks for one of several tests. Returns the place of the check that fails if none holds.
    fn any_of(&mut self, tests: &[Test]) -> Result<Place, PolicyError> {
        let Some((last, first)) = tests.split_last() else {
            return Err(self.error("expected a value".into()));
        };
        let mut holds = Vec::new();
        for test in first {
            // With this answer the condition is met: on behind the last test.
            holds.push(self.emit(Instruction::Check { test: *test, expected: false, otherwise: 0 })?);
        }
        let failed = self.emit(Instruction::Check { test: *last, expected: true, otherwise: 0 })?;
        self.lead_here(&holds);
        Ok(failed)
    }

    fn emit(&mut self, instruction: Instruction) -> Result<Place, PolicyError> {
        if self.code.len() >= MOST_INSTRUCTIONS {
            return Err(self.error(format!("a policy has at most {MOST_INSTRUCTIONS} instructions")));
        }
        self.code.push(instruction);
        Ok((self.code.len() - 1) as Place)
    }

    /// Has jumps lead to the next instruction.
    fn lead_here(&mut self, jumps: &[Place]) {
        let here = self.code.len() as Place;
        for jump in jumps {
            match &mut self.code[*jump as usize] {
                Instruction::Check { otherwise, .. } => *otherwise = here,
                Instruction::Jump(target) => *target = here,
                _ => {}
            }
        }
    }

    /// Returns a value with the argument in place of a parameter.
    fn value<'v>(&'v self, text: &'v str) -> Result<&'v str, PolicyError> {
        let Some(name) = text.strip_prefix('$') else { return Ok(text) };
        self.arguments.get(name).map(|value| &**value).ok_or_else(|| {
            let known = self.arguments.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none".to_owned() } else { known };
            self.error(format!("`${}` is no parameter of this policy; its parameters: {known}", shown(name)))
        })
    }

    /// Returns the only value.
    fn only<'v>(&'v self, values: &'v Values) -> Result<&'v str, PolicyError> {
        match &values.0[..] {
            [value] => self.value(value),
            _ => Err(self.error("expected one value".into())),
        }
    }

    /// Compiles a call: the name of a policy, and `NAME=VALUE` for each of its parameters.
    fn call(&mut self, text: &str, callers: &mut Vec<String>) -> Result<(), PolicyError> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let policies = self.policies;
        let known = policies.policy_statement.iter().map(|statement| &*statement.name);
        let Some(statement) = policies.policy_statement.iter().find(|statement| statement.name == name)
        else {
            return Err(self.error(unknown("policy", name, known)));
        };
        if callers.iter().any(|caller| caller == name) {
            let chain = callers.join(" -> ");
            return Err(self.error(format!("a policy cannot call itself: {chain} -> {name}")));
        }
        if callers.len() >= DEEPEST_CALL {
            return Err(self.error(format!("calls are at most {DEEPEST_CALL} deep")));
        }
        let mut arguments = Arguments::new();
        for word in words {
            let Some((parameter, value)) = word.split_once('=') else {
                return Err(self.error(format!("`{}`: expected PARAMETER=VALUE", shown(word))));
            };
            if !statement.parameter.iter().any(|known| known == parameter) {
                let known = statement.parameter.iter().map(|name| &**name);
                return Err(self.error(unknown(&format!("parameter of `{name}`"), parameter, known)));
            }
            arguments.insert(parameter.to_owned(), self.value(value)?.to_owned());
        }
        if let Some(missing) = statement.parameter.iter().find(|known| !arguments.contains_key(*known)) {
            return Err(self.error(format!("`{name}` needs a value for its parameter: {missing}=VALUE")));
        }
        self.statement(statement, arguments, callers)
    }

    /// Adds an unnamed prefix list.
    fn prefix_list(&mut self, entries: Vec<PrefixRange>) -> Result<ListId, PolicyError> {
        self.prefix_lists
            .add(entries)
            .ok_or_else(|| self.error("there are more than 65,535 prefix lists".into()))
    }

    /// Adds a constant to one of the tables.
    fn constant<T>(
        &mut self,
        table: impl FnOnce(&mut Constants) -> &mut Vec<T>,
        value: T,
    ) -> Result<Index, PolicyError> {
        let table = table(&mut self.constants);
        let number = Index::try_from(table.len());
        table.push(value);
        number.map_err(|_| self.error("the policy is too large".into()))
    }
}
