"""A project on SQLite, or on PostgreSQL where SHOP_HOST says where that is."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "an example"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "mysite.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = ["headgate.django", "letters", "shop"]

SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": os.environ.get("SHOP_HOST"),
    "PORT": os.environ.get("SHOP_PORT", "5432"),
    "NAME": os.environ.get("SHOP_NAME", "shop"),
    "USER": os.environ.get("SHOP_USER", "postgres"),
    "PASSWORD": os.environ.get("SHOP_PASSWORD", ""),
    "OPTIONS": {"application_name": "shop"},
}
DATABASES = {"default": POSTGRES if "SHOP_HOST" in os.environ else SQLITE}

HEADGATE = {"retention": 7 * 86_400}  # what headgate.App takes; all of it is optional
