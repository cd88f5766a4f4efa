//! Messages to packets and back. A message longer than one packet is sent in several; the first
//! byte of a packet says whether it is the message's last.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest packet, in bytes; well below the default socket buffer.
pub const MAX_PACKET: usize = 64 * 1024;

/// A message longer than this is refused: it can only be garbage.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

const MORE: u8 = b'+';
const LAST: u8 = b'.';

/// Why a packet could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The first byte is neither of the two marks.
    #[error("a packet of {0} bytes begins with neither mark")]
    Mark(usize),
    /// The message grows without end.
    #[error("a message of more than {MAX_MESSAGE} bytes")]
    TooLong,
    /// The message is no JSON of a known message.
    #[error("no message: {0}")]
    Json(String),
}

/// The packets of a message.
///
/// # Errors
/// The message cannot be represented in JSON: a defect.
pub fn packets<T: Serialize>(message: &T) -> Result<Vec<Vec<u8>>, CodecError> {
    let bytes = serde_json::to_vec(message).map_err(|e| CodecError::Json(e.to_string()))?;
    let chunks: Vec<&[u8]> = bytes.chunks(MAX_PACKET - 1).collect();
    let last = chunks.len() - 1;
    Ok(chunks
        .iter()
        .enumerate()
        .map(|(i, chunk)| {
            let mut packet = Vec::with_capacity(chunk.len() + 1);
            packet.push(if i == last { LAST } else { MORE });
            packet.extend_from_slice(chunk);
            packet
        })
        .collect())
}

/// Puts packets together to messages.
#[derive(Debug, Default)]
pub struct Assembler {
    partial: Vec<u8>,
}

impl Assembler {
    /// Takes the next packet; gives the message that it completes, if it does.
    ///
    /// # Errors
    /// The packet or the message is garbage.
    pub fn push<T: DeserializeOwned>(&mut self, packet: &[u8]) -> Result<Option<T>, CodecError> {
        let Some((&mark, chunk)) = packet.split_first() else {
            return Err(CodecError::Mark(0));
        };
        if mark != MORE && mark != LAST {
            return Err(CodecError::Mark(packet.len()));
        }
        if self.partial.len() + chunk.len() > MAX_MESSAGE {
            return Err(CodecError::TooLong);
        }
        self.partial.extend_from_slice(chunk);
        if mark == MORE {
            return Ok(None);
        }
        let message = std::mem::take(&mut self.partial);
        serde_json::from_slice(&message)
            .map(Some)
            .map_err(|e| CodecError::Json(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_survives_packets(text in ".{0,40}", repeat in 1usize..20_000) {
            let message = text.repeat(repeat.min(200_000 / text.len().max(1) + 1));
            let mut assembler = Assembler::default();
            let packets = packets(&message).unwrap();
            let mut got = None;
            for (i, packet) in packets.iter().enumerate() {
                prop_assert!(packet.len() <= MAX_PACKET);
                got = assembler.push::<String>(packet).unwrap();
                prop_assert_eq!(got.is_some(), i + 1 == packets.len());
            }
            prop_assert_eq!(got, Some(message));
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let result = Assembler::default().push::<super::super::ToWorker>(&bytes);
            prop_assert!(!matches!(result, Ok(Some(_))));
        }
    }
}
