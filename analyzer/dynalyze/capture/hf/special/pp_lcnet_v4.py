"""Its blocks are listed as those of PP-LCNet v3."""

from dynalyze.capture.hf.special.pp_lcnet_v3 import shrink as shrink
