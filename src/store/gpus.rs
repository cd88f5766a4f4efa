//! What the GPUs were at during a run, a row a minute and GPU.

use super::apply::Batch;
use super::sql::Row;
use super::{Store, StoreError, StoreErrorKind as Kind};
use device::GpuMinute;

/// The columns behind `gpu`, in the order of [`row`] and of [`Batch::put_gpu_minute`]; `processes` follows.
const COLUMNS: &str = "samples, memory_total, memory_used, memory_peak, utilization,
    utilization_peak, temperature, temperature_peak, power, power_peak, clock, throttle,
    ecc_uncorrected, remapped_rows, recovery_action";

impl Store {
    /// The last rows of a run, one a GPU, each with its time in naive UTC.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last_gpu_minutes(&self, run_id: i64) -> Result<Vec<(String, GpuMinute)>, StoreError> {
        self.read(|conn| {
            // Files of an earlier version, opened for reading, do not have the table yet.
            if !conn.has_table("tune_gpu_samples")? {
                return Ok(Vec::new());
            }
            // Those of the version before have no such column.
            let processes = match conn.has_column("tune_gpu_samples", "processes")? {
                true => "processes",
                false => "NULL",
            };
            let query = format!(
                "SELECT gpu, {COLUMNS}, {processes}, time FROM tune_gpu_samples WHERE run_id = ?1 AND (gpu, time) IN
                     (SELECT gpu, MAX(time) FROM tune_gpu_samples WHERE run_id = ?1 GROUP BY gpu)
                 ORDER BY gpu"
            );
            conn.rows(&query, &[&run_id], |r| Ok((r.get(17)?, row(r)?)))
        })
    }
}

fn row(row: &Row<'_>) -> Result<GpuMinute, Kind> {
    let throttle = row.text(12)?;
    let processes = row.text_or_null(16)?;
    Ok(GpuMinute {
        gpu: row.get(0)?,
        samples: row.get(1)?,
        memory_total: row.get(2)?,
        memory_used: row.get(3)?,
        memory_peak: row.get(4)?,
        utilization: row.get(5)?,
        utilization_peak: row.get(6)?,
        temperature: row.get(7)?,
        temperature_peak: row.get(8)?,
        power: row.get(9)?,
        power_peak: row.get(10)?,
        clock: row.get(11)?,
        throttle: (throttle.split(',').filter(|w| !w.is_empty()))
            .map(str::to_owned)
            .collect(),
        ecc_uncorrected: row.get(13)?,
        remapped_rows: row.get(14)?,
        recovery_action: row.get(15)?,
        // A figure to look at: what somebody else has put there is no reason to read nothing.
        processes: processes
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
    })
}

impl Batch<'_> {
    /// Writes a row; again, where a spool is taken in a second time.
    pub(super) fn put_gpu_minute(&self, minute: &GpuMinute) -> Result<(), Kind> {
        let throttle = minute.throttle.join(",");
        let processes = serde_json::to_string(&minute.processes)
            .map_err(|error| Kind::Content(error.to_string()))?;
        self.conn.put(
            "tune_gpu_samples",
            "run_id, time, gpu",
            &format!("{COLUMNS}, processes"),
            &[[
                &self.run_id,
                &self.now,
                &minute.gpu,
                &minute.samples,
                &minute.memory_total,
                &minute.memory_used,
                &minute.memory_peak,
                &minute.utilization,
                &minute.utilization_peak,
                &minute.temperature,
                &minute.temperature_peak,
                &minute.power,
                &minute.power_peak,
                &minute.clock,
                &throttle,
                &minute.ecc_uncorrected,
                &minute.remapped_rows,
                &minute.recovery_action,
                &processes,
            ]],
        )
    }
}
