"""Where code lies must not decide how fast it is: functions and innermost loops are aligned."""

import re
import subprocess
import sys

SCRIPT = """
import llvmlite.binding as llvm
from kernelsmith.devices.cpu.codegen_target import compile_ir, features_of
ir = '''
define float @k(ptr %p, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %head]
  %s = phi float [0.0, %entry], [%t, %head]
  %q = getelementptr float, ptr %p, i64 %i
  %v = load float, ptr %q
  %t = fadd float %s, %v
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %head, label %done
done:
  ret float %t
}
'''
compile_ir(ir, features_of("host"))
target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
print(target.create_target_machine(opt=2).emit_assembly(llvm.parse_assembly(ir)))
"""


def test_innermost_loops_start_at_64_bytes() -> None:
    # In a process of its own: LLVM's options hold for all that a process compiles.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert re.search(r"\.p2align\s+6\b.*\n\.LBB0_\d+:", done.stdout), done.stdout
