"""Topics into tables, topics into Spark and back, on PySpark and against any Kafka.

Nothing here is imported by a broker; Spark finds the connector through the module `pyspark_highwater`.
"""
