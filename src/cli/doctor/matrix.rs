//! A command run again under one change at a time.
