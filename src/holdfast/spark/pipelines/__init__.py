"""Ready pipelines (requirement D4): what most people want of their events on Spark, each a plain function and a command.

    archive      events ─▶ lake table
    statistics   events ─▶ counts, rates, sizes and latencies for each window, destination and type
    alerts       events ─▶ rules over windows ─▶ alert events in a topic
    divergence   answers of replicated servers ─▶ the transactions in which they do not agree
    replay       lake table ─▶ events in a destination, with the ids they had
    audit        sent, accepted, delivered, confirmed and archived, reconciled

The function takes a frame with the columns of the source and gives a frame, so it is the same for a stream and for what lies in
a table, and is tested on a few rows with a known answer. `runner` joins it to source and sink and shows how it goes. `settings`
and `registry` say what there is to set, and know nothing of Spark: help is there without it.
"""
