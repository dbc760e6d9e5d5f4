//! The overview: the most important figures of everything.

use super::super::pane::{WIDE, beside, stacked};
use super::super::panes::{
    caches, chains, device, files, journal, memory, network, operations, processes, readahead,
    requests,
};
use super::super::scene::Scene;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;

/// The width from which the overview has three columns, with the chains of the marked cache and the operations.
const THREE_COLUMNS: u16 = 160;
/// The rows of the panes of figures on the smallest screen.
const LEAST_FIGURE_ROWS: u16 = 5;
/// The rows of the lists on the smallest screen.
const LEAST_LIST_ROWS: u16 = 4;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let [memory, caches, rest] =
        stacked(area, [Length(memory::ROWS), Length(caches::ROWS), Fill(1)]);
    memory::draw(scene, memory, buffer);
    caches::draw(scene, caches, buffer);
    if area.width >= THREE_COLUMNS {
        draw_three_columns(scene, rest, buffer);
    } else {
        draw_lists_below(scene, rest, buffer);
    }
}

fn draw_three_columns(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let [left, middle, right] = beside(area, [Fill(1), Fill(1), Fill(1)]);
    let [requests, operations] = stacked(left, [Fill(1), Fill(1)]);
    requests::draw(scene, requests, buffer);
    operations::draw(scene, false, operations, buffer);
    let [device, last] = stacked(middle, [Fill(1), Fill(1)]);
    device::draw_short(scene, device, buffer);
    let [readahead, chains] = stacked(last, [Length(readahead::SHORT_ROWS + 3), Fill(1)]);
    readahead::draw_short(scene, readahead, buffer);
    chains::draw(scene, chains, buffer);
    let [journal, files, processes] = stacked(right, [Fill(2), Fill(3), Fill(2)]);
    draw_writing(scene, journal, buffer);
    files::draw(scene, false, files, buffer);
    processes::draw(scene, false, processes, buffer);
}

fn draw_lists_below(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let spare = area
        .height
        .saturating_sub(LEAST_FIGURE_ROWS + readahead::SHORT_ROWS + LEAST_LIST_ROWS);
    let lists = LEAST_LIST_ROWS + spare / 3;
    let [figures, lists] = stacked(area, [Fill(1), Length(lists)]);
    if area.width >= WIDE {
        let [left, middle, right] = beside(figures, [Fill(1), Fill(1), Fill(1)]);
        requests::draw(scene, left, buffer);
        device::draw_short(scene, middle, buffer);
        let [journal, readahead] = stacked(right, [Fill(2), Fill(1)]);
        draw_writing(scene, journal, buffer);
        readahead::draw_short(scene, readahead, buffer);
    } else {
        let [left, right] = beside(figures, [Fill(1), Fill(1)]);
        let [requests, readahead] = stacked(left, [Fill(1), Length(readahead::SHORT_ROWS)]);
        requests::draw(scene, requests, buffer);
        readahead::draw_short(scene, readahead, buffer);
        let [device, journal] = stacked(right, [Fill(1), Length(readahead::SHORT_ROWS)]);
        device::draw_short(scene, device, buffer);
        draw_writing(scene, journal, buffer);
    }
    let [files, processes] = beside(lists, [Fill(1), Fill(1)]);
    files::draw(scene, false, files, buffer);
    processes::draw(scene, false, processes, buffer);
}

/// Draws the journal or, for an image at a URL, its server. If a local image is mounted read-only, the pane of the
/// journal says so.
fn draw_writing(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let stats = scene.stats();
    if let Some(server) = &stats.server {
        network::draw(scene, server, area, buffer);
    } else {
        journal::draw_short(scene, area, buffer);
    }
}
