//! TensorBoard's event files: records with lengths and checksums (TFRecord), each a protocol buffer. The messages are
//! those of `tensorboard/compat/proto/{event,summary,tensor}.proto` and `plugins/hparams/{plugin_data,api}.proto`, as far as
//! they are used here.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(string, optional, tag = "3")]
    pub file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub summary: Option<Summary>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub value: Vec<SummaryValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SummaryValue {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(float, optional, tag = "2")]
    pub simple_value: Option<f32>,
    #[prost(message, optional, tag = "8")]
    pub tensor: Option<Tensor>,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<Metadata>,
}

/// An empty tensor of floats: where the metadata say it all.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int32, tag = "1")]
    pub dtype: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub plugin_data: Option<PluginData>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PluginData {
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HParams {
    #[prost(int32, tag = "1")]
    pub version: i32,
    #[prost(message, optional, tag = "2")]
    pub experiment: Option<Experiment>,
    #[prost(message, optional, tag = "3")]
    pub session_start_info: Option<SessionStart>,
    #[prost(message, optional, tag = "4")]
    pub session_end_info: Option<SessionEnd>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Experiment {
    #[prost(double, tag = "3")]
    pub time_created_secs: f64,
    #[prost(message, repeated, tag = "4")]
    pub hparam_infos: Vec<HParamInfo>,
    #[prost(message, repeated, tag = "5")]
    pub metric_infos: Vec<MetricInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HParamInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    /// 1: text, 2: true or false, 3: a number.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionStart {
    #[prost(btree_map = "string, message", tag = "1")]
    pub hparams: BTreeMap<String, AnyValue>,
    #[prost(double, tag = "5")]
    pub start_time_secs: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionEnd {
    /// 1: success, 2: failure, 3: running.
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(double, tag = "2")]
    pub end_time_secs: f64,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Kind", tags = "2, 3, 4")]
    pub kind: Option<Kind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Kind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
}

/// Appends a record: its length, the length's checksum, the bytes, their checksum.
pub(crate) fn append(file: &mut Vec<u8>, event: &Event) {
    let bytes = event.encode_to_vec();
    let length = (bytes.len() as u64).to_le_bytes();
    file.extend_from_slice(&length);
    file.extend_from_slice(&masked(&length).to_le_bytes());
    file.extend_from_slice(&bytes);
    file.extend_from_slice(&masked(&bytes).to_le_bytes());
}

/// A checksum as TFRecord stores it, so that one of data with checksums in them differs, too.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut crc = i as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[i] = crc;
            i += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_rfc() {
        // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
