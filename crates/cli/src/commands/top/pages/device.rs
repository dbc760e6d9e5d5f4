//! The device of the image, readahead and, for an image at a URL, its server.

use super::super::pane::{WIDE, beside, stacked};
use super::super::panes::{device, latency, network, readahead};
use super::super::scene::Scene;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;

/// The rows of readahead: the title and its figures.
const READAHEAD_ROWS: u16 = 8;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let stats = scene.stats();
    if area.width < WIDE {
        let [left, right] = beside(area, [Fill(1), Fill(1)]);
        let Some(server) = &stats.server else {
            device::draw(scene, left, buffer);
            let [readahead, times] = stacked(right, [Length(READAHEAD_ROWS), Fill(1)]);
            readahead::draw(scene, readahead, buffer);
            return latency::draw(
                scene,
                "Device reads",
                &stats.device.read_latency,
                times,
                buffer,
            );
        };
        let [device, readahead] = stacked(left, [Fill(1), Length(READAHEAD_ROWS)]);
        device::draw(scene, device, buffer);
        readahead::draw(scene, readahead, buffer);
        return network::draw(scene, server, right, buffer);
    }
    let [left, right] = beside(area, [Fill(1), Fill(1)]);
    let [device, readahead] = stacked(left, [Fill(3), Fill(1)]);
    device::draw(scene, device, buffer);
    readahead::draw(scene, readahead, buffer);
    let times = |area: Rect, buffer: &mut Buffer| {
        let device = &stats.device;
        let heights = [&device.read_latency, &device.write_latency].map(latency::height);
        let [reads, writes] = stacked(area, heights);
        latency::draw(
            scene,
            "Device reads",
            &stats.device.read_latency,
            reads,
            buffer,
        );
        latency::draw(
            scene,
            "Device writes",
            &stats.device.write_latency,
            writes,
            buffer,
        );
    };
    if let Some(server) = &stats.server {
        let [network, rest] = stacked(right, [Fill(1), Fill(1)]);
        network::draw(scene, server, network, buffer);
        times(rest, buffer);
    } else {
        times(right, buffer);
    }
}
