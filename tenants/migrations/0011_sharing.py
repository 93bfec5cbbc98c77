from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0010_placer_parameters")]

    operations = [
        migrations.AddField(
            model_name="virtualcluster",
            name="sharing",
            field=models.CharField(
                choices=[("never", "never"), ("measured", "measured"), ("free", "free")],
                db_default="measured",
                default="measured",
                max_length=8,
            ),
        ),
        migrations.AddConstraint(
            model_name="virtualcluster",
            constraint=models.CheckConstraint(
                condition=models.Q(("sharing__in", ["never", "measured", "free"])), name="vc_sharing_known"
            ),
        ),
    ]
