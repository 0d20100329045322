//! Programs bound to a neighbor.

use crate::machine::Route;
use crate::program::{Instruction, Place, Program};
use crate::vocabulary::{NEIGHBOR, NEIGHBOR_AS, Reads, find};
use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::OnceCell;

impl Program {
    /// Binds the program to a neighbor: tests on the neighbor and on facts are answered once, by a route with the neighbor's
    /// variables and facts, and the neighbor's address and AS become values. The result decides as this program does for routes with these variables and facts. Programs that
    /// are bound to neighbors with the same answers and values are equal.
    pub fn bind(&self, neighbor: &impl Route) -> Program {
        if let Cow::Owned(program) = self.with_peer(neighbor) {
            return program.answered(neighbor);
        }
        self.answered(neighbor)
    }

    /// Returns the program with the values of a neighbor: the neighbor's address in conditions on addresses, and the neighbor's AS in
    /// communities. A program that uses neither stays as it is.
    pub fn with_peer(&self, neighbor: &impl Route) -> Cow<'_, Program> {
        let variable = |name| find(self.vocabulary(), name).map(|(variable, _)| variable);
        let address = variable(NEIGHBOR).filter(|_| self.uses_peer_address());
        // The router's own routes have no neighbor.
        let address = address.and_then(|v| neighbor.address(v)).filter(|address| !address.is_unspecified());
        let asn = variable(NEIGHBOR_AS).filter(|_| self.uses_peer_as()).and_then(|v| neighbor.number(v));
        match (address, asn) {
            (None, None) => Cow::Borrowed(self),
            (address, asn) => Cow::Owned(self.of_peer(address, asn)),
        }
    }

    /// Answers the tests on the neighbor.
    fn answered(&self, neighbor: &impl Route) -> Program {
        let mut reachable = vec![false; self.code.len() + 1];
        reachable[0] = true;
        let (mut code, mut bound) = (Vec::with_capacity(self.code.len()), Vec::new());
        for (place, instruction) in self.code.iter().enumerate() {
            let next = place + 1;
            let instruction = match *instruction {
                _ if !reachable[place] => Instruction::Jump(next as Place),
                Instruction::Check { test, expected, otherwise }
                    if self.reads_of(test) == Reads::Neighbor =>
                {
                    let answer = self.answer(neighbor, test, &OnceCell::new());
                    bound.push(answer);
                    Instruction::Jump(if answer == expected { next as Place } else { otherwise })
                }
                instruction => instruction,
            };
            if reachable[place] {
                match instruction {
                    Instruction::Check { otherwise, .. } => {
                        reachable[next] = true;
                        reachable[otherwise as usize] = true;
                    }
                    Instruction::Jump(target) => reachable[target as usize] = true,
                    Instruction::Enter(_) | Instruction::Change(_) => reachable[next] = true,
                    Instruction::Accept | Instruction::Reject(_) => {}
                }
            }
            code.push(instruction);
        }
        self.bound(code, bound)
    }
}
