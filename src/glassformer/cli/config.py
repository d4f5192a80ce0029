"""`glass config`: every setting, its default and its meaning."""

from __future__ import annotations

from pathlib import Path


def config(recipe: Path | None = None, *overrides: str) -> None:
    """Print every setting of a recipe with its meaning; or a recipe with its defaults filled in.

    Parameters
    ----------
    recipe
        a recipe to complete; left out, a commented template is printed
    overrides
        settings to change, such as model.width=256
    """
    from glassformer import settings
    from glassformer.recipe import Recipe

    if recipe is None:
        print(settings.describe(Recipe), end="")
    else:
        print(settings.dumps(settings.read(Recipe, recipe, overrides)), end="")
