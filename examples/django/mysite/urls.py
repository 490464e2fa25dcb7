from django.urls import path
from shop import views

urlpatterns = [path("orders", views.place), path("jobs/<str:id>", views.job)]
