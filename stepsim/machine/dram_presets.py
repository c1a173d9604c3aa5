"""DRAMs that stepsim ships, as values of the section ``hbm.dram``; times in clocks of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# The controller of Ramulator 2.0: 32 requests by default, and one more is admitted; writes are
# served from more than 0.8 x 32 on, reads again below 0.2 x 32.
_CONTROLLER: Final = {
    "mapper": "RoBaRaCoCh", "refresh": "off", "read_queue": 33, "write_queue": 33,
    "high_watermark": 26, "low_watermark": 6,
}  # fmt: skip

# HBM2_2Gb at HBM2_2Gbps of Ramulator 2.0, as the STeP paper's hardware validation runs it: 64-bit
# channels, four clocks of 1 ns per burst, no refresh.
_HBM2_HDL: Final = {
    **_CONTROLLER, "clock_ghz": 1.0, "channels": 8, "pseudo_channels": 2, "bank_groups": 4,
    "banks": 2, "rows": 16384, "columns": 32, "access_bytes": 16, "nACT": 2, "nBL": 4, "nCL": 7,
    "nCWL": 2, "nRCDRD": 7, "nRCDWR": 7, "nRP": 7, "nRAS": 17, "nRC": 19, "nWR": 8, "nRTPS": 2,
    "nRTPL": 3, "nCCDS": 1, "nCCDL": 2, "nRRDS": 2, "nRRDL": 3, "nWTRS": 3, "nWTRL": 4, "nFAW": 15,
    "nRFC": 160, "nREFI": 3900,
}  # fmt: skip

# Data rate: JESD235D (HBM2E), 3.2 Gbit/s per pin. Core timings in ns: those published with
# DRAMsim3 (HBM2_8Gb_x128.ini), taken to be those of the same arrays at this rate: CL, RCD and RP
# 14, RAS 34, RC their sum, WR 16, RRD 4 and 6, WTR 6 and 8, FAW 30, RTP 4 and 6, RFC 260, REFI
# 3900; write latency four clocks. Bursts of a bank group are 3 ns apart, as in gem5
# (HBM_2000_4H_1x64, tCCD_L).
_HBM2E: Final = {
    **_CONTROLLER, "clock_ghz": 1.6, "channels": 8, "pseudo_channels": 2, "bank_groups": 4,
    "banks": 4, "rows": 32768, "columns": 32, "access_bytes": 32, "nACT": 2, "nBL": 2, "nCL": 23,
    "nCWL": 4, "nRCDRD": 23, "nRCDWR": 23, "nRP": 23, "nRAS": 55, "nRC": 77, "nWR": 26, "nRTPS": 7,
    "nRTPL": 10, "nCCDS": 2, "nCCDL": 5, "nRRDS": 7, "nRRDL": 10, "nWTRS": 10, "nWTRL": 13,
    "nFAW": 48, "nRFC": 416, "nREFI": 6240,
}  # fmt: skip

DRAM_PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "hbm2-hdl": _HBM2_HDL,
    # The same device with 128-bit channels and two clocks per burst: 256 GB/s, as a real stack.
    "hbm2-fullrate": {**_HBM2_HDL, "access_bytes": 32, "nBL": 2},
    # HBM_2Gb at HBM_2Gbps of Ramulator 2.0: channels of 128 bits without pseudo-channels.
    "hbm1": {**_HBM2_HDL, "pseudo_channels": 1, "columns": 64, "access_bytes": 32, "nBL": 2},
    # HBM3_2Gb at HBM3_2Gbps of Ramulator 2.0, which has the timings of HBM2.
    "hbm3": {**_HBM2_HDL, "banks": 4, "rows": 8192},
    "hbm2e": _HBM2E,
    # AMD Alveo U55C: two stacks of HBM2, 32 pseudo-channels of 512 MB and 14.375 GB/s, 460 GB/s in
    # all (AMD UG1393, "HBM Configuration and Use"), so that the clock is 14.375 GB/s x 2 clocks /
    # 32 B. Core timings in ns as for hbm2e.
    "u55c": {
        **_HBM2E, "clock_ghz": 0.8984375, "channels": 16, "nCL": 13, "nRCDRD": 13, "nRCDWR": 13,
        "nRP": 13, "nRAS": 31, "nRC": 44, "nWR": 15, "nRTPS": 4, "nRTPL": 6, "nCCDL": 3, "nRRDS": 4,
        "nRRDL": 6, "nWTRS": 6, "nWTRL": 8, "nFAW": 27, "nRFC": 234, "nREFI": 3503,
    },
    # JESD79-4, DDR4-3200AA (22-22-22), a rank of eight 8 Gbit x8 devices on 64 bits, 25.6 GB/s; RAS
    # 32 ns, WR 15 ns, RTP 7.5 ns, RRD 4 clocks and 4.9 ns, WTR 2.5 and 7.5 ns, FAW 21 ns, CCD 4
    # clocks and 5 ns, RFC 350 ns, REFI 7.8 us; the clocks of DRAMsim3's DDR4_8Gb_x8_3200.ini.
    "ddr4-3200": {
        **_CONTROLLER, "clock_ghz": 1.6, "channels": 1, "pseudo_channels": 1, "bank_groups": 4,
        "banks": 4, "rows": 65536, "columns": 128, "access_bytes": 64, "nACT": 1, "nBL": 4,
        "nCL": 22, "nCWL": 16, "nRCDRD": 22, "nRCDWR": 22, "nRP": 22, "nRAS": 52, "nRC": 74,
        "nWR": 24, "nRTPS": 12, "nRTPL": 12, "nCCDS": 4, "nCCDL": 8, "nRRDS": 4, "nRRDL": 8,
        "nWTRS": 4, "nWTRL": 12, "nFAW": 34, "nRFC": 560, "nREFI": 12480,
    },
    # JESD209-5, LPDDR5-6400, an 8 Gbit channel of 16 bits in mode BG (four groups of four banks),
    # 12.8 GB/s, CK 800 MHz: RL 17, WL 9, RCD 18 ns, RPpb 18 ns, RAS 42 ns, WR 34 ns, RBTP 4 clocks,
    # RRD 5 ns, WTR 6.25 and 12 ns, FAW 20 ns, CCD 2 and 4 clocks, RFCab 210 ns, REFI 3.906 us. An
    # activation is two commands. Times in ns as in gem5's LPDDR5_6400_1x16_BG_BL16.
    "lpddr5": {
        **_CONTROLLER, "clock_ghz": 0.8, "channels": 1, "pseudo_channels": 1, "bank_groups": 4,
        "banks": 4, "rows": 32768, "columns": 64, "access_bytes": 32, "nACT": 2, "nBL": 2,
        "nCL": 17, "nCWL": 9, "nRCDRD": 15, "nRCDWR": 15, "nRP": 15, "nRAS": 34, "nRC": 49,
        "nWR": 28, "nRTPS": 4, "nRTPL": 4, "nCCDS": 2, "nCCDL": 4, "nRRDS": 4, "nRRDL": 4,
        "nWTRS": 5, "nWTRL": 10, "nFAW": 16, "nRFC": 168, "nREFI": 3125,
    },
}  # fmt: skip
"""The values of every DRAM by its name."""
