//! Programs bound to a neighbor.

use crate::machine::Route;
use crate::program::{Instruction, Place, Program};
use crate::vocabulary::Reads;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::OnceCell;

impl Program {
    /// Binds the program to a neighbor: tests on the neighbor and on facts are answered once, by a route with the neighbor's
    /// variables and facts. The result decides as this program does for routes with these variables and facts. Programs that
    /// are bound to neighbors with the same answers are equal.
    pub fn bind(&self, neighbor: &impl Route) -> Program {
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
