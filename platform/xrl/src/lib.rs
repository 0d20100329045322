//! XRL: the way components talk.
