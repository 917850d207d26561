"""The deterministic kernel library that winners go to: export, certificates, verification.

``layout`` says where each file lies, ``certificate`` what a kernel was shown to be, ``sources``
how a kernel's text differs inside a package from what the gate judged.
"""
