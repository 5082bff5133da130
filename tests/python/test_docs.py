"""The examples in Python of docs/ and of the README, run as they stand, in order and in one namespace per page."""
import tempfile

from rig import *

pages = [os.path.join(root, *page.split("/")) for page in ("docs/python.md", "docs/tag-texts.md", "docs/images.md", "README.md")]
for page in pages:
    with open(page) as f:
        text = f.read()
    names = {"__name__": "example"}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M))
        check(f"{os.path.basename(page)} has examples", blocks)
        for block in blocks:
            line = text[:block.start()].count("\n") + 1
            try:
                exec(compile("\n" * line + block[1], page, "exec"), names)
                why = ""
            except BaseException as e:
                at = e.__traceback__
                while at.tb_next and at.tb_next.tb_frame.f_code.co_filename == page:
                    at = at.tb_next
                why = f"line {at.tb_lineno}: {type(e).__name__}: {e}"
            check(f"{os.path.basename(page)}:{line + 1}", not why, why)
        os.chdir(root)
end()
