"""All that pyproject.toml cannot say: a wheel carries the recipes, which in the repository lie beside the package."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            shutil.copytree("recipes", Path(self.build_lib, "regard", "recipes"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithRecipes})
